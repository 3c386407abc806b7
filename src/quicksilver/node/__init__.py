"""The API people use: a node in this process, in asyncio and synchronous form."""
