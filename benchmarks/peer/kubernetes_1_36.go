//go:build kubernetes_1_36

package main

import (
	"errors"

	resourceapi "k8s.io/api/resource/v1"
	dracel "k8s.io/dynamic-resource-allocation/cel"
)

// kubernetesVersion is the version whose code this program contains.
const kubernetesVersion = "1.36"

var errNoDerivedAttributes = errors.New("derived attributes came with Kubernetes 1.37")

func allowDerivedAttribute(*dracel.Options) error {
	return errNoDerivedAttributes
}

func evaluateDerivedAttribute(*dracel.CompilationResult, dracel.Device) (*resourceapi.DeviceAttribute, *celDetails, error) {
	return nil, nil, errNoDerivedAttributes
}
