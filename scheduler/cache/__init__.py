"""The cache of watched objects: watcher (events) -> reflector (fills) -> store (one writer, many readers).

Source: the shape and the names are kube-rs' runtime's.
"""
