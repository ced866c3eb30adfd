"""HTTP to the API server: address, credentials, discovery and errors.

Raw JSON in and out. Nothing is cached, and only calls that the server asked to retry (429) are sent again.
"""

from scheduler.client.lazy_packages import prepare

prepare()  # before any module here imports the library
