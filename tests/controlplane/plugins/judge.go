package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

// judged is how many decisions were looked at, all of which are among kube-scheduler's best.
type judged struct {
	Best int `json:"best"`
}

// judgeChoices reads a case as `plugins cycle` does, and after it a list with the node that somebody has chosen for
// each of the pods without a node. Filters and scores are asked about all nodes: it is an error if the one that was
// chosen is refused, or if another one has a higher score. The pod goes to the chosen node before the next is looked at.
func judgeChoices(arguments []string) {
	flags := flag.NewFlagSet("judge", flag.ExitOnError)
	seconds := flags.Int("seconds", 0, "look at no decision after so many seconds; 0: look at all")
	if err := flags.Parse(arguments); err != nil {
		log.Fatal(err)
	}
	best, err := judge(time.Duration(*seconds) * time.Second)
	if err != nil {
		log.Fatal(err)
	}
	if err := json.NewEncoder(os.Stdout).Encode(judged{Best: best}); err != nil {
		log.Fatalf("cannot write the answer: %v", err)
	}
}

func judge(limit time.Duration) (int, error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	input, chosen := json.NewDecoder(os.Stdin), []string{}
	objects, err := readObjects(input)
	if err != nil {
		return 0, err
	}
	if err := input.Decode(&chosen); err != nil {
		return 0, fmt.Errorf("cannot read what was chosen: %w", err)
	}
	made, err := schedulerOf(ctx, objects)
	if err != nil {
		return 0, err
	}
	began, pods := time.Now(), waiting(objects)
	if len(pods) != len(chosen) {
		return 0, fmt.Errorf("%d nodes are chosen for %d pods", len(chosen), len(pods))
	}
	for i, pod := range pods {
		if limit > 0 && time.Since(began) > limit {
			return i, nil
		}
		if err := take(ctx, made, pod, chosen[i]); err != nil {
			return i, fmt.Errorf("pod %s: %w", pod.Name, err)
		}
	}
	return len(pods), nil
}

// take puts the pod on the node, which has to be one of the best.
func take(ctx context.Context, made *scheduler.Scheduler, pod *v1.Pod, node string) error {
	logger := klog.FromContext(ctx)
	own, snapshot, err := profileOf(made, pod)
	if err != nil {
		return err
	}
	if err := made.Cache.UpdateSnapshot(logger, snapshot); err != nil {
		return fmt.Errorf("cannot take a snapshot: %w", err)
	}
	asked := &attempt{
		pod: pod, scheduler: made, profile: own, snapshot: snapshot, state: framework.NewCycleState(),
		answer: answer{Nodes: map[string]status{}},
	}
	if err := asked.decide(ctx); err != nil {
		return err
	}
	if err := asked.answer.isBest(node); err != nil {
		return err
	}
	assumed := pod.DeepCopy()
	assumed.Spec.NodeName = node
	if err := made.Cache.AssumePod(logger, assumed); err != nil {
		return fmt.Errorf("cannot assume it: %w", err)
	}
	return own.RunReservePluginsReserve(ctx, asked.state, assumed, node).AsError()
}

func (a answer) isBest(node string) error {
	chosen, isFeasible := a.Scores[node]
	if !isFeasible {
		return fmt.Errorf("node %s is refused: %+v %+v", node, a.PreFilter, a.Nodes[node])
	}
	for name, other := range a.Scores {
		if other.Total > chosen.Total {
			return fmt.Errorf("node %s has %+v, which is less than %+v of node %s", node, chosen, other, name)
		}
	}
	return nil
}
