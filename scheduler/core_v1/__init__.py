"""Objects of other API groups that placement reads: nodes, pods, volumes, and workloads with pod templates."""
