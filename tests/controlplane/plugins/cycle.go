package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"runtime/debug"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// decided is how long each decision took, and for which node it was.
type decided struct {
	Nodes       []string `json:"nodes"`
	Nanoseconds []int64  `json:"nanoseconds"`
}

// measureCycles reads one case without `pod` from standard input, and decides for its pods that have no node, in their
// order, as kube-scheduler's scheduling cycle does: snapshot, filters, scores, choice, assume and Reserve. The binding
// cycle is left out, and nothing is written: what a pod takes is assumed from then on.
func measureCycles(arguments []string) {
	flags := flag.NewFlagSet("cycle", flag.ExitOnError)
	percentage := flags.Int("percentage", 0, "of nodes to score, as percentageOfNodesToScore; 0: as kube-scheduler comes")
	seconds := flags.Int("seconds", 0, "begin no decision after so many seconds; 0: decide for all pods")
	if err := flags.Parse(arguments); err != nil {
		log.Fatal(err)
	}
	found, err := cycles(int32(*percentage), time.Duration(*seconds)*time.Second)
	if err != nil {
		log.Fatal(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		log.Fatalf("cannot write the answer: %v", err)
	}
}

func cycles(percentage int32, limit time.Duration) (*decided, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	objects, err := readObjects(json.NewDecoder(os.Stdin))
	if err != nil {
		return nil, err
	}
	made, err := schedulerOf(ctx, objects, scheduler.WithPercentageOfNodesToScore(&percentage))
	if err != nil {
		return nil, err
	}
	debug.FreeOSMemory() // a collection now is none of the decisions'
	began := time.Now()
	found := &decided{Nodes: []string{}, Nanoseconds: []int64{}}
	for _, pod := range waiting(objects) {
		if limit > 0 && time.Since(began) > limit {
			break
		}
		started := time.Now()
		node, err := cycle(ctx, made, pod)
		if err != nil {
			return nil, fmt.Errorf("pod %s: %w", pod.Name, err)
		}
		found.Nanoseconds = append(found.Nanoseconds, time.Since(started).Nanoseconds())
		found.Nodes = append(found.Nodes, node)
	}
	return found, nil
}

func readObjects(from *json.Decoder) ([]runtime.Object, error) {
	fields := map[string]json.RawMessage{}
	if err := from.Decode(&fields); err != nil {
		return nil, fmt.Errorf("cannot read the case: %w", err)
	}
	return objectsOf(fields)
}

// waiting are the pods without a node, in their order.
func waiting(objects []runtime.Object) []*v1.Pod {
	var pods []*v1.Pod
	for _, one := range objects {
		if pod, is := one.(*v1.Pod); is && pod.Spec.NodeName == "" {
			pods = append(pods, pod)
		}
	}
	return pods
}

// cycle decides for one pod and takes what it gets. Source: schedulingCycle of kube-scheduler.
func cycle(ctx context.Context, made *scheduler.Scheduler, pod *v1.Pod) (string, error) {
	logger := klog.FromContext(ctx)
	own, snapshot, err := profileOf(made, pod)
	if err != nil {
		return "", err
	}
	if err := made.Cache.UpdateSnapshot(logger, snapshot); err != nil {
		return "", fmt.Errorf("cannot take a snapshot: %w", err)
	}
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return "", err
	}
	state, queued := framework.NewCycleState(), &framework.QueuedPodInfo{PodInfo: info}
	result, err := made.SchedulePod(ctx, own, state, queued)
	if err != nil {
		return "", err
	}
	assumed := queued.DeepCopy()
	assumed.Pod.Spec.NodeName = result.SuggestedHost
	if err := made.Cache.AssumePod(logger, assumed.Pod); err != nil {
		return "", fmt.Errorf("cannot assume it: %w", err)
	}
	done := own.RunReservePluginsReserve(ctx, state, assumed.Pod, result.SuggestedHost)
	return result.SuggestedHost, done.AsError()
}
