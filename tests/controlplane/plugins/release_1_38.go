//go:build kubernetes_1_38

package main

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

func informersOf(client kubernetes.Interface) informers.SharedInformerFactory {
	return scheduler.NewInformerFactory(client, 0, nil)
}

func queuedPod(ctx context.Context, made *scheduler.Scheduler, pod *v1.Pod) (*framework.QueuedPodInfo, bool) {
	return made.SchedulingQueue.GetPod(ctx, pod.Name, pod.Namespace, pod.Spec.SchedulingGroup)
}
