"""Running live objects: proxies, endpoints, connections, and the runtime that holds them."""
