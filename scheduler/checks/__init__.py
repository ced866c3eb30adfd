"""What is wrong with a cluster, or will be: one file for each rule of `dra audit` and `dra lint`."""
