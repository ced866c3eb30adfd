//go:build !kubernetes_1_38

package main

import (
	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types/ref"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	dracel "k8s.io/dynamic-resource-allocation/cel"
	"k8s.io/dynamic-resource-allocation/structured"
)

type (
	celProgram = cel.Program
	celDetails = cel.EvalDetails
	celValue   = ref.Val
	// allocatorSlice is a slice as the allocator takes it.
	allocatorSlice = resourceapi.ResourceSlice
	// sharedID is what the allocated state has of a share.
	sharedID = structured.SharedDeviceID
)

func allocatorSlices(slices []*resourceapi.ResourceSlice) ([]*allocatorSlice, error) {
	return slices, nil
}

func celDevice(device *Device) (dracel.Device, error) {
	return dracel.Device(*device), nil
}

func sharedIDOf(device structured.DeviceID, share *types.UID) sharedID {
	return structured.MakeSharedDeviceID(device, share)
}
