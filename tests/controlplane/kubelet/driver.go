package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/utils/ptr"
)

// driver prepares nothing, but refuses a device that another claim has: it is the last that could. held: by claim.
// The helper calls it once at a time.
type driver struct {
	name    string
	records *records
	held    map[claimID][]result
}

// start serves the driver until the context ends. It has registered and published its resources, if there are any.
func (d *driver) start(ctx context.Context, client kubernetes.Interface, node, folder string, resources resourceslice.DriverResources) error {
	own := filepath.Join(folder, d.name)
	if err := os.Mkdir(own, 0o700); err != nil {
		return err
	}
	helper, err := kubeletplugin.Start(ctx, d,
		kubeletplugin.DriverName(d.name),
		kubeletplugin.NodeName(node),
		kubeletplugin.KubeClient(client),
		kubeletplugin.RegistrarDirectoryPath(filepath.Join(folder, "registry")),
		kubeletplugin.PluginDataDirectoryPath(own),
	)
	if err != nil {
		return err
	}
	if err := await(ctx, helper); err != nil {
		return err
	}
	if resources.Pools == nil {
		return nil
	}
	return helper.PublishResources(ctx, resources)
}

func (d *driver) PrepareResourceClaims(_ context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	prepared := make(map[types.UID]kubeletplugin.PrepareResult, len(claims))
	for _, claim := range claims {
		prepared[claim.UID] = d.prepare(claim)
	}
	return prepared, nil
}

func (d *driver) prepare(claim *resourceapi.ResourceClaim) kubeletplugin.PrepareResult {
	results := d.resultsOf(claim)
	err := d.hold(claim.UID, results)
	d.records.write(step{
		Step: "NodePrepareResources", UID: claim.UID, Driver: d.name,
		Results: results, Config: d.configOf(claim), Error: text(err),
	})
	return kubeletplugin.PrepareResult{Devices: d.devicesOf(results), Err: err}
}

func (d *driver) hold(claim claimID, results []result) error {
	for other, theirs := range d.held {
		for _, one := range results {
			if other != claim && isTaken(one, theirs) {
				return fmt.Errorf("device %s/%s of claim %s is in use by claim %s", one.Pool, one.Device, claim, other)
			}
		}
	}
	d.held[claim] = results
	return nil
}

func isTaken(one result, theirs []result) bool {
	for _, other := range theirs {
		if one.Pool == other.Pool && one.Device == other.Device && !isShared(one, other) {
			return true
		}
	}
	return false
}

// isShared tells whether a device may be given as both: each a share of it, or one to an administrator.
func isShared(one, other result) bool {
	if ptr.Deref(one.AdminAccess, false) || ptr.Deref(other.AdminAccess, false) {
		return true
	}
	return one.ShareID != nil && other.ShareID != nil && *one.ShareID != *other.ShareID
}

func (d *driver) resultsOf(claim *resourceapi.ResourceClaim) []result {
	var own []result
	for _, one := range claim.Status.Allocation.Devices.Results {
		if one.Driver == d.name {
			own = append(own, one)
		}
	}
	return own
}

func (d *driver) configOf(claim *resourceapi.ResourceClaim) []resourceapi.DeviceAllocationConfiguration {
	var own []resourceapi.DeviceAllocationConfiguration
	for _, one := range claim.Status.Allocation.Devices.Config {
		if one.Opaque != nil && one.Opaque.Driver == d.name {
			own = append(own, one)
		}
	}
	return own
}

func (d *driver) devicesOf(results []result) []kubeletplugin.Device {
	devices := make([]kubeletplugin.Device, 0, len(results))
	for _, one := range results {
		devices = append(devices, kubeletplugin.Device{
			Requests:     []string{one.Request},
			PoolName:     one.Pool,
			DeviceName:   one.Device,
			CDIDeviceIDs: []string{fmt.Sprintf("%s/device=%s.%s", d.name, one.Pool, one.Device)},
			ShareID:      one.ShareID,
		})
	}
	return devices
}

func (d *driver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	unprepared := make(map[types.UID]error, len(claims))
	for _, claim := range claims {
		delete(d.held, claim.UID)
		unprepared[claim.UID] = nil
		d.records.write(step{Step: "NodeUnprepareResources", UID: claim.UID, Driver: d.name})
	}
	return unprepared, nil
}

// HandleError ends the program: a driver whose slices are refused, or lose fields, is a test that was written wrongly.
func (d *driver) HandleError(_ context.Context, err error, message string) {
	log.Fatalf("driver %s: %s: %v", d.name, message, err)
}
