"""Objects of resource.k8s.io of every served version in, the v1 fields and the allocator's model out.

`decode` reads one raw object: conversion, types, rules, model. `allocation_to_v1` writes a result back. Nothing else of
the allocator knows how the API spells things. Pure: no files, no clock, no environment.
Source: k8s.io/api resource/v1, v1beta2, v1beta1, v1alpha3 and their conversion, defaults and validation.
"""

from allocator.api.allocation import Consumer, allocation_to_v1
from allocator.api.decode import Decoded, DraObject, decode
from allocator.api.device_class import DeviceTaintSelector, TaintRule
from allocator.api.findings import FieldError, UnknownField
from allocator.api.metadata import Metadata, OwnerReference
from allocator.api.resource_claim import ClaimTemplate
from allocator.api.versions import is_decoded

__all__ = [
    "ClaimTemplate",
    "Consumer",
    "Decoded",
    "DeviceTaintSelector",
    "DraObject",
    "FieldError",
    "Metadata",
    "OwnerReference",
    "TaintRule",
    "UnknownField",
    "allocation_to_v1",
    "decode",
    "is_decoded",
]
