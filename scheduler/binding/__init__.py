"""From a decision to a bound pod: the writes, their order, and what undoes them.

In this order: finalizer and intent; allocation with reservation; wait until our own watch shows them; look for other
writers' claims that hold the same devices (rivals); wait for binding conditions; bind. An attempt that ends before that
is undone, so that no claim stays allocated which no pod uses.
"""
