"""HTTP to the API server: where it is, who we are, what it serves, and what went wrong.

Raw JSON in and out; nothing is cached here, and only a call that the server put off is sent again.
"""
