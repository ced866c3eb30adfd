"""The libraries that Kubernetes adds to the language, one file each."""
