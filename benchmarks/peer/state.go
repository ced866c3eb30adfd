package main

import (
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
)

// DeviceRef names one device.
type DeviceRef struct {
	Driver string `json:"driver"`
	Pool   string `json:"pool"`
	Device string `json:"device"`
}

// ShareRef names one share of a device.
type ShareRef struct {
	DeviceRef `json:",inline"`
	ShareID   string `json:"shareID"`
}

// CapacityRef is what is consumed of a device.
type CapacityRef struct {
	DeviceRef `json:",inline"`
	Capacity  map[resourceapi.QualifiedName]resource.Quantity `json:"capacity"`
}

func (d DeviceRef) id() structured.DeviceID {
	return structured.MakeDeviceID(d.Driver, d.Pool, d.Device)
}

// stateOf is what is in use by the case's allocated claims and its raw state together.
func stateOf(c *Case) (structured.AllocatedState, error) {
	s := structured.AllocatedState{
		AllocatedDevices:         sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[sharedID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection(),
	}
	for _, claim := range c.AllocatedClaims {
		if claim.Status.Allocation == nil {
			return s, fmt.Errorf("allocatedClaims: %s has no status.allocation", claim.Name)
		}
		occupy(&s, claim.Status.Allocation.Devices.Results, c.features.ConsumableCapacity)
	}
	if c.AllocatedState != nil {
		c.AllocatedState.addTo(&s)
	}
	return s, nil
}

func (raw *State) addTo(s *structured.AllocatedState) {
	for _, d := range raw.AllocatedDevices {
		s.AllocatedDevices.Insert(d.id())
	}
	for _, d := range raw.AllocatedSharedDeviceIDs {
		uid := types.UID(d.ShareID)
		s.AllocatedSharedDeviceIDs.Insert(sharedIDOf(d.id(), &uid))
	}
	for _, d := range raw.AggregatedCapacity {
		s.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(d.id(), d.Capacity))
	}
}

// occupy records the devices of one allocation as kube-scheduler does: admin
// access occupies nothing, a share its part, everything else the whole device.
func occupy(s *structured.AllocatedState, results []resourceapi.DeviceRequestAllocationResult, shares bool) {
	for i := range results {
		r := &results[i]
		id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
		switch {
		case r.AdminAccess != nil && *r.AdminAccess:
		case shares && r.ShareID != nil:
			s.AllocatedSharedDeviceIDs.Insert(sharedIDOf(id, r.ShareID))
			if r.ConsumedCapacity != nil {
				s.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id, r.ConsumedCapacity))
			}
		default:
			s.AllocatedDevices.Insert(id)
		}
	}
}

// cloneState copies as kube-scheduler does once per pod.
func cloneState(s structured.AllocatedState) structured.AllocatedState {
	return structured.AllocatedState{
		AllocatedDevices:         s.AllocatedDevices.Clone(),
		AllocatedSharedDeviceIDs: s.AllocatedSharedDeviceIDs.Clone(),
		AggregatedCapacity:       s.AggregatedCapacity.Clone(),
	}
}

// classLister serves the device classes of a case; the first of a name counts.
type classLister struct {
	list   []*resourceapi.DeviceClass
	byName map[string]*resourceapi.DeviceClass
}

func newClassLister(classes []*resourceapi.DeviceClass) *classLister {
	l := &classLister{list: classes, byName: make(map[string]*resourceapi.DeviceClass, len(classes))}
	for _, class := range classes {
		if _, found := l.byName[class.Name]; !found {
			l.byName[class.Name] = class
		}
	}
	return l
}

func (l *classLister) List() ([]*resourceapi.DeviceClass, error) { return l.list, nil }

func (l *classLister) Get(name string) (*resourceapi.DeviceClass, error) {
	if class, ok := l.byName[name]; ok {
		return class, nil
	}
	return nil, errors.NewNotFound(resourceapi.Resource("deviceclass"), name)
}
