"""From a decision to a bound pod: the writes, their order, and what undoes them."""
