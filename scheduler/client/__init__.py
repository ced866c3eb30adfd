"""HTTP to the API server: address, credentials, discovery, errors, and watched objects.

Raw JSON in and out. Only calls that the server asked to retry (429) are sent again. A watcher reports objects as
events, a reflector fills a store with them, and the store has one writer and many readers.
Source: the shape and the names of the latter are kube-rs' runtime's.
"""

from scheduler.client.lazy_packages import prepare

prepare()  # before any module here imports the library
