"""What claims ask for: the candidates of each request, selectors, and constraints."""
