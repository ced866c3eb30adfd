//go:build !kubernetes_1_36 && !kubernetes_1_38

package main

import (
	"context"

	resourceapi "k8s.io/api/resource/v1"
	dracel "k8s.io/dynamic-resource-allocation/cel"
)

// kubernetesVersion is the version whose code this program contains.
const kubernetesVersion = "1.37"

func allowDerivedAttribute(options *dracel.Options) error {
	options.DerivedAttribute = true
	return nil
}

func evaluateDerivedAttribute(result *dracel.CompilationResult, device dracel.Device) (*resourceapi.DeviceAttribute, *celDetails, error) {
	return result.EvaluateDerivedAttribute(context.Background(), device)
}
