//go:build !kubernetes_1_37 && !kubernetes_1_38

package main

import (
	"context"
	"log"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
)

func measureGang() {
	log.Fatal("gang: the PodGroups of this release are others")
}

func informersOf(client kubernetes.Interface) informers.SharedInformerFactory {
	return scheduler.NewInformerFactory(client, 0)
}

func queuedPod(_ context.Context, made *scheduler.Scheduler, pod *v1.Pod) (*framework.QueuedPodInfo, bool) {
	return made.SchedulingQueue.GetPod(pod.Name, pod.Namespace)
}
