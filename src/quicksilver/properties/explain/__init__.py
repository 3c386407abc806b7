"""What a plan does, for people: in sentences, and as a drawing of its data flow."""
