package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

const (
	goneEvery = time.Millisecond
	goneMost  = 20 * time.Second
	quiet     = 50 * time.Millisecond
)

// measurePreemptions reads one case as `plugins cycle` does, of pods that fit nowhere. What is timed of each is
// PostFilter: who has to go from which node. Its victims are deleted beside that, and the pod has its node, before the
// next one comes.
func measurePreemptions() {
	found, err := preemptions()
	if err != nil {
		log.Fatal(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		log.Fatalf("cannot write the answer: %v", err)
	}
}

func preemptions() (*decided, error) {
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
	found := &decided{Nodes: []string{}, Nanoseconds: []int64{}}
	for _, pod := range waiting(objects) {
		node, took, err := preemption(ctx, made, pod)
		if err != nil {
			return nil, fmt.Errorf("pod %s: %w", pod.Name, err)
		}
		found.Nanoseconds = append(found.Nanoseconds, took.Nanoseconds())
		found.Nodes = append(found.Nodes, node)
	}
	return found, nil
}

func preemption(ctx context.Context, made *scheduler.Scheduler, pod *v1.Pod) (string, time.Duration, error) {
	logger := klog.FromContext(ctx)
	own, snapshot, err := profileOf(made, pod)
	if err != nil {
		return "", 0, err
	}
	if err := made.Cache.UpdateSnapshot(logger, snapshot); err != nil {
		return "", 0, fmt.Errorf("cannot take a snapshot: %w", err)
	}
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return "", 0, err
	}
	state, queued := framework.NewCycleState(), &framework.QueuedPodInfo{PodInfo: info}
	_, err = made.SchedulePod(ctx, own, state, queued)
	var refused *framework.FitError
	if !errors.As(err, &refused) {
		return "", 0, fmt.Errorf("it should fit nowhere: %w", err)
	}
	before, err := made.Cache.PodCount()
	if err != nil {
		return "", 0, fmt.Errorf("cannot count pods: %w", err)
	}
	started := time.Now()
	result, status := own.RunPostFilterPlugins(ctx, state, pod, refused.Diagnosis.NodeToStatus)
	took := time.Since(started)
	if !status.IsSuccess() {
		return "", took, nil
	}
	if err := victimsGone(made, before); err != nil {
		return "", 0, err
	}
	assumed := queued.DeepCopy()
	assumed.Pod.Spec.NodeName = result.NominatedNodeName
	if err := made.Cache.AssumePod(logger, assumed.Pod); err != nil {
		return "", 0, fmt.Errorf("cannot assume it: %w", err)
	}
	return result.NominatedNodeName, took, nil
}

// victimsGone returns when the cache has lost pods, which are deleted in the background, and loses no more.
func victimsGone(made *scheduler.Scheduler, before int) error {
	last, since := before, time.Now()
	for began := time.Now(); time.Since(began) < goneMost; time.Sleep(goneEvery) {
		count, err := made.Cache.PodCount()
		if err != nil {
			return fmt.Errorf("cannot count pods: %w", err)
		}
		if count != last {
			last, since = count, time.Now()
		}
		if last < before && time.Since(since) > quiet {
			return nil
		}
	}
	return errors.New("its victims are still there")
}
