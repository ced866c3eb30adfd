//go:build kubernetes_1_38

package main

import (
	"context"
	"fmt"

	"github.com/blang/semver/v4"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types/ref"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	draapi "k8s.io/dynamic-resource-allocation/api"
	dracel "k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

// kubernetesVersion is the version whose code this program contains.
const kubernetesVersion = "1.38"

type (
	celProgram = cel.Program
	celDetails = cel.EvalDetails
	celValue   = ref.Val
	// allocatorSlice is a slice as the allocator takes it.
	allocatorSlice = draapi.ResourceSlice
	// sharedID is what the allocated state has of a share: its device.
	sharedID = structured.DeviceID
)

// allocatorSlices converts as kube-scheduler's informer does, once for each slice.
func allocatorSlices(slices []*resourceapi.ResourceSlice) ([]*allocatorSlice, error) {
	converted := make([]*allocatorSlice, len(slices))
	for i, slice := range slices {
		converted[i] = &allocatorSlice{}
		if err := draapi.Convert_v1_ResourceSlice_To_api_ResourceSlice(slice, converted[i], nil); err != nil {
			return nil, err
		}
	}
	return converted, nil
}

func celDevice(device *Device) (dracel.Device, error) {
	own := resourceapi.Device{
		Attributes: device.Attributes, Capacity: device.Capacity,
		AllowMultipleAllocations: device.AllowMultipleAllocations,
	}
	spec := resourceapi.ResourceSliceSpec{Driver: device.Driver, Devices: []resourceapi.Device{own}}
	converted, err := allocatorSlices([]*resourceapi.ResourceSlice{{Spec: spec}})
	if err != nil {
		return dracel.Device{}, err
	}
	slice := converted[0]
	one := slice.Spec.Devices[0]
	return dracel.Device{
		Driver: device.Driver, AllowMultipleAllocations: one.AllowMultipleAllocations,
		LookupUniqueString: slice.LookupUniqueString, Attributes: one.Attributes, Capacity: one.Capacity,
	}, nil
}

func allowDerivedAttribute(options *dracel.Options) error {
	options.DerivedAttribute = true
	return nil
}

func evaluateDerivedAttribute(result *dracel.CompilationResult, device dracel.Device) (*resourceapi.DeviceAttribute, *celDetails, error) {
	value, details, err := result.EvaluateDerivedAttribute(context.Background(), device)
	if err != nil {
		return nil, details, err
	}
	attribute, err := attributeOf(value)
	return attribute, details, err
}

// attributeOf is a value of the allocator as an attribute of a slice.
func attributeOf(value any) (*resourceapi.DeviceAttribute, error) {
	switch v := value.(type) {
	case bool:
		return &resourceapi.DeviceAttribute{BoolValue: &v}, nil
	case int64:
		return &resourceapi.DeviceAttribute{IntValue: &v}, nil
	case string:
		return &resourceapi.DeviceAttribute{StringValue: &v}, nil
	case semver.Version:
		text := v.String()
		return &resourceapi.DeviceAttribute{VersionValue: &text}, nil
	case []bool:
		return &resourceapi.DeviceAttribute{BoolValues: v}, nil
	case []int64:
		return &resourceapi.DeviceAttribute{IntValues: v}, nil
	case []string:
		return &resourceapi.DeviceAttribute{StringValues: v}, nil
	case []semver.Version:
		texts := make([]string, len(v))
		for i := range v {
			texts[i] = v[i].String()
		}
		return &resourceapi.DeviceAttribute{VersionValues: texts}, nil
	default:
		return nil, fmt.Errorf("a derived attribute of type %T", value)
	}
}

func sharedIDOf(device structured.DeviceID, _ *types.UID) sharedID {
	return device
}
