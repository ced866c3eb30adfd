"""What is wrong with a cluster, or will be: the rules of `dra audit` and `dra lint`, together by what they look at."""
