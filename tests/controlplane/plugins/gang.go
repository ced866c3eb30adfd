//go:build kubernetes_1_37 || kubernetes_1_38

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"runtime/debug"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
)

// measureGang reads one case without `pod`, with PodGroups, and lets kube-scheduler decide once for the one whose pods
// wait: all that it does before it binds. The program makes a scheduler for it, which has seen everything.
func measureGang() {
	gates := map[string]bool{"GenericWorkload": true, "TopologyAwareWorkloadScheduling": true}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(gates); err != nil {
		log.Fatal(err)
	}
	kinds["podGroups"] = list[schedulingv1beta1.PodGroup]
	found, err := gang()
	if err != nil {
		log.Fatal(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		log.Fatalf("cannot write the answer: %v", err)
	}
}

func gang() (*decided, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	objects, err := readObjects(json.NewDecoder(os.Stdin))
	if err != nil {
		return nil, err
	}
	made, err := schedulerOf(ctx, objects)
	if err != nil {
		return nil, err
	}
	debug.FreeOSMemory()
	started := time.Now()
	made.ScheduleOne(ctx)
	found := &decided{Nodes: []string{}, Nanoseconds: []int64{time.Since(started).Nanoseconds()}}
	for name, node := range made.Cache.Dump().Nodes {
		for _, pod := range node.GetPods() {
			if wasWaiting(objects, pod.GetPod().Name) {
				found.Nodes = append(found.Nodes, name)
			}
		}
	}
	return found, nil
}

func wasWaiting(objects []runtime.Object, name string) bool {
	for _, one := range objects {
		if pod, is := one.(*v1.Pod); is && pod.Name == name {
			return pod.Spec.NodeName == ""
		}
	}
	panic(fmt.Sprintf("pod %s came from nowhere", name))
}
