package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/structured"
)

// Case is one question to the allocator: the claims are allocated together, in
// order, on each of the nodes separately.
type Case struct {
	ID   json.RawMessage `json:"id,omitempty"`
	Name string          `json:"name,omitempty"`
	// Features: an object with the field names of structured.Features, the string
	// "all" or "none", or the name of a release, "1.36", "1.37" or "1.38", for what is on by default.
	Features json.RawMessage `json:"features,omitempty"`
	// Implementation: "experimental" (the default, all features), "incubating",
	// "stable" or "auto" (what kube-scheduler picks for the features).
	Implementation string `json:"implementation,omitempty"`

	Node  *v1.Node   `json:"node,omitempty"`
	Nodes []*v1.Node `json:"nodes,omitempty"`

	Slices        []*resourceapi.ResourceSlice `json:"slices,omitempty"`
	DeviceClasses []*resourceapi.DeviceClass   `json:"deviceClasses,omitempty"`
	Claims        []*resourceapi.ResourceClaim `json:"claims,omitempty"`

	// AllocatedClaims say by their status.allocation what is in use; AllocatedState
	// says it directly. Both add up.
	AllocatedClaims []*resourceapi.ResourceClaim `json:"allocatedClaims,omitempty"`
	AllocatedState  *State                       `json:"allocatedState,omitempty"`

	// TimeoutSeconds limits each call (0: the flag -timeout).
	TimeoutSeconds float64 `json:"timeoutSeconds,omitempty"`
	// ApplyDefaults does to the claims what the API server's defaulting would have done.
	ApplyDefaults bool `json:"applyDefaults,omitempty"`
	// Repeat calls this often and reports the distinct outcomes, if there are several.
	Repeat int `json:"repeat,omitempty"`

	// Pods is the number of pods that "bench cluster" places, each with a copy of the claims.
	Pods int `json:"pods,omitempty"`

	// Recorded cases carry these; they ask nothing of the peer.
	FeatureGates       json.RawMessage `json:"featureGates,omitempty"`
	Context            json.RawMessage `json:"context,omitempty"`
	Expected           json.RawMessage `json:"expected,omitempty"`
	Deterministic      json.RawMessage `json:"deterministic,omitempty"`
	Variants           json.RawMessage `json:"variants,omitempty"`
	ShareIDsNormalized json.RawMessage `json:"shareIDsNormalized,omitempty"`
	Repaired           json.RawMessage `json:"repaired,omitempty"`

	features structured.Features
}

// State is structured.AllocatedState as JSON.
type State struct {
	AllocatedDevices         []DeviceRef   `json:"allocatedDevices"`
	AllocatedSharedDeviceIDs []ShareRef    `json:"allocatedSharedDeviceIDs"`
	AggregatedCapacity       []CapacityRef `json:"aggregatedCapacity"`
}

func decodeCase(line []byte) (*Case, error) {
	c := &Case{}
	if err := decode(line, c); err != nil {
		return nil, err
	}
	if err := c.complete(); err != nil {
		return nil, err
	}
	return c, nil
}

// complete checks and fills in what JSON alone does not say.
func (c *Case) complete() error {
	features, err := parseFeatures(c.Features)
	if err != nil {
		return err
	}
	c.features = features
	if c.Implementation == "" {
		c.Implementation = "experimental"
	}
	if err := errors.Join(
		refuseNull("nodes", c.Nodes),
		refuseNull("slices", c.Slices),
		refuseNull("deviceClasses", c.DeviceClasses),
		refuseNull("claims", c.Claims),
		refuseNull("allocatedClaims", c.AllocatedClaims),
	); err != nil {
		return err
	}
	if c.ApplyDefaults {
		for _, claim := range slices.Concat(c.Claims, c.AllocatedClaims) {
			applyDefaults(claim)
		}
	}
	return nil
}

func refuseNull[T any](field string, list []*T) error {
	if i := slices.Index(list, nil); i >= 0 {
		return fmt.Errorf("%s[%d] is null", field, i)
	}
	return nil
}

// nodes are all nodes of the case; without any, the allocator gets a nameless one.
func (c *Case) nodes() ([]*v1.Node, error) {
	all := c.Nodes
	if c.Node != nil {
		all = append([]*v1.Node{c.Node}, all...)
	}
	seen := map[string]bool{}
	for _, node := range all {
		if seen[node.Name] {
			return nil, fmt.Errorf("node %q occurs more than once", node.Name)
		}
		seen[node.Name] = true
	}
	if len(all) == 0 {
		all = []*v1.Node{{}}
	}
	return all, nil
}

// since1_37 is on by default in 1.37 and in 1.38.
var since1_37 = map[string]bool{
	"AdminAccess": true, "ConsumableCapacity": true, "DeviceBindingAndStatus": true, "DeviceTaints": true,
	"FractionalCapacityRange": true, "PartitionableDevices": true, "PrioritizedList": true,
}

// namedFeatures are sets that a case can ask for by one word.
var namedFeatures = map[string]map[string]bool{
	"none": {},
	"1.36": {
		"AdminAccess": true, "ConsumableCapacity": true, "DeviceBindingAndStatus": true,
		"DeviceTaints": true, "PartitionableDevices": true, "PrioritizedList": true,
	},
	"1.37": since1_37,
	"1.38": since1_37,
}

func parseFeatures(raw json.RawMessage) (structured.Features, error) {
	raw = bytes.TrimSpace(raw)
	if string(raw) == `"all"` {
		return allFeatures(), nil
	}
	wanted := map[string]bool{}
	if len(raw) > 0 && raw[0] == '"' {
		named, known := namedFeatures[strings.Trim(string(raw), `"`)]
		if !known {
			return structured.Features{}, fmt.Errorf("features: unknown name %s: all, none, 1.36, 1.37 or 1.38", raw)
		}
		wanted = named
	} else if len(raw) > 0 {
		if err := json.Unmarshal(raw, &wanted); err != nil {
			return structured.Features{}, fmt.Errorf("features: %w", err)
		}
	}
	return featuresOf(wanted)
}

// featuresOf goes by name, because the versions of the reference have different ones;
// one that a version lacks can only be off.
func featuresOf(wanted map[string]bool) (structured.Features, error) {
	var features structured.Features
	v := reflect.ValueOf(&features).Elem()
	for name, on := range wanted {
		field := v.FieldByName(name)
		switch {
		case field.IsValid():
			field.SetBool(on)
		case on:
			return features, fmt.Errorf("features: Kubernetes %s has no %q", kubernetesVersion, name)
		}
	}
	return features, nil
}

// allFeatures turns on whatever features this version of the reference has.
func allFeatures() structured.Features {
	var features structured.Features
	v := reflect.ValueOf(&features).Elem()
	for i := range v.NumField() {
		v.Field(i).SetBool(true)
	}
	return features
}

// applyDefaults sets what the API server sets in the fields that the allocator reads.
func applyDefaults(claim *resourceapi.ResourceClaim) {
	for i := range claim.Spec.Devices.Requests {
		request := &claim.Spec.Devices.Requests[i]
		if e := request.Exactly; e != nil {
			defaultRequest(&e.AllocationMode, &e.Count, e.Tolerations)
		}
		for j := range request.FirstAvailable {
			s := &request.FirstAvailable[j]
			defaultRequest(&s.AllocationMode, &s.Count, s.Tolerations)
		}
	}
}

func defaultRequest(mode *resourceapi.DeviceAllocationMode, count *int64, tolerations []resourceapi.DeviceToleration) {
	if *mode == "" {
		*mode = resourceapi.DeviceAllocationModeExactCount
	}
	if *mode == resourceapi.DeviceAllocationModeExactCount && *count == 0 {
		*count = 1
	}
	for i := range tolerations {
		if tolerations[i].Operator == "" {
			tolerations[i].Operator = resourceapi.DeviceTolerationOpEqual
		}
	}
}
