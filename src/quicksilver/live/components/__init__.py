"""The component library: protocols and applications as live objects."""
