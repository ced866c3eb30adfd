"""What the API server holds, kept here: watcher (events) -> reflector (fills) -> store (one writer, many readers).

Source: the shape and the names are kube-rs' runtime's.
"""
