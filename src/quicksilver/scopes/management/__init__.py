"""Managing a scope: its members, owners and topics, and what each member has to do."""
