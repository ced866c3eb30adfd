"""Objects of other API groups that placement looks at: nodes, pods, and what holds a pod template."""
