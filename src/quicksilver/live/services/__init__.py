"""What live objects need of the world outside: groups, datagrams, storage."""
