"""All that can happen to a few nodes: crashes, joins, losses, late messages, one by one."""
