package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/kubelet/cm/dra"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/ptr"
)

// pods are those that are bound to the node, as a watch shows them.
type pods struct{ cache.SharedIndexInformer }

func podsOf(client kubernetes.Interface, node string) pods {
	bound := fields.OneTermEqualSelector("spec.nodeName", node)
	source := cache.NewListWatchFromClient(client.CoreV1().RESTClient(), "pods", metav1.NamespaceAll, bound)
	return pods{cache.NewSharedIndexInformer(source, &v1.Pod{}, 0, cache.Indexers{})}
}

func (p pods) active() []*v1.Pod {
	var found []*v1.Pod
	for _, one := range p.GetStore().List() {
		found = append(found, one.(*v1.Pod))
	}
	return found
}

// node is what runs on it. admitted: pods that have been admitted and are not gone, by their UID.
type node struct {
	client    kubernetes.Interface
	manager   *dra.Manager
	admission lifecycle.PodAdmitHandler
	records   *records
	admitted  map[types.UID]*v1.Pod
}

func newNode(name string, client kubernetes.Interface, manager *dra.Manager, steps *records) *node {
	current := func(ctx context.Context, _ bool) (*v1.Node, error) {
		return client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	}
	unchanged := func(*framework.NodeInfo, *lifecycle.PodAdmitAttributes) error { return nil }
	admission := lifecycle.NewPredicateAdmitHandler(current, lifecycle.NewAdmissionFailureHandlerStub(), unchanged)
	return &node{client, manager, admission, steps, map[types.UID]*v1.Pod{}}
}

// follow does what the pods need, one event after the other, until the context ends.
func (n *node) follow(ctx context.Context, pods pods) error {
	_, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(one any) { n.sync(ctx, one.(*v1.Pod)) },
		UpdateFunc: func(_, one any) { n.sync(ctx, one.(*v1.Pod)) },
		DeleteFunc: func(one any) { n.lose(ctx, one) },
	})
	if err != nil {
		return err
	}
	n.records.write(step{Step: "ready"})
	pods.RunWithContext(ctx)
	return nil
}

func (n *node) sync(ctx context.Context, pod *v1.Pod) {
	switch {
	case pod.DeletionTimestamp != nil:
		if n.end(ctx, pod) {
			n.release(ctx, pod)
		}
	case n.admitted[pod.UID] == nil && pod.Status.Phase == v1.PodPending:
		n.begin(ctx, pod)
	}
}

// lose ends a pod that somebody has deleted without waiting for its node.
func (n *node) lose(ctx context.Context, one any) {
	if missed, ok := one.(cache.DeletedFinalStateUnknown); ok {
		one = missed.Obj
	}
	n.end(ctx, one.(*v1.Pod))
}

func (n *node) begin(ctx context.Context, pod *v1.Pod) {
	err := n.admit(pod)
	n.records.write(step{Step: "admit", UID: pod.UID, Error: text(err)})
	if err == nil {
		n.admitted[pod.UID] = pod
		var devices map[string][]string
		devices, err = n.prepare(ctx, pod)
		n.records.write(step{Step: "prepare", UID: pod.UID, Devices: devices, Error: text(err)})
	}
	n.show(ctx, pod, err)
}

func (n *node) admit(pod *v1.Pod) error {
	others := slices.Collect(maps.Values(n.admitted))
	answer := n.admission.Admit(&lifecycle.PodAdmitAttributes{Pod: pod, OtherPods: others, Operation: lifecycle.AddOperation})
	if !answer.Admit {
		return fmt.Errorf("%s: %s", answer.Reason, answer.Message)
	}
	return nil
}

// prepare returns the CDI devices by container; of those that get some.
func (n *node) prepare(ctx context.Context, pod *v1.Pod) (map[string][]string, error) {
	if err := n.manager.PrepareResources(ctx, pod); err != nil {
		return nil, err
	}
	devices := map[string][]string{}
	for i := range pod.Spec.Containers {
		found, err := n.manager.GetResources(pod, &pod.Spec.Containers[i])
		if err != nil {
			return nil, err
		}
		for _, one := range found.CDIDevices {
			devices[pod.Spec.Containers[i].Name] = append(devices[pod.Spec.Containers[i].Name], one.Name)
		}
	}
	return devices, nil
}

// end returns whether nothing of the pod is prepared any more. The manager is asked once for each pod: asked again, it
// would unprepare a claim that other pods use.
func (n *node) end(ctx context.Context, pod *v1.Pod) bool {
	if n.admitted[pod.UID] == nil {
		return true
	}
	delete(n.admitted, pod.UID)
	err := n.manager.UnprepareResources(ctx, pod)
	n.records.write(step{Step: "unprepare", UID: pod.UID, Error: text(err)})
	return err == nil
}

// show writes that the pod runs, or why it cannot.
func (n *node) show(ctx context.Context, pod *v1.Pod, refusal error) {
	status := map[string]any{"phase": v1.PodRunning}
	if refusal != nil {
		status = map[string]any{"phase": v1.PodFailed, "message": refusal.Error()}
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "status": status})
	if err == nil {
		_, err = n.client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	logUnlessStopped(err, "status of pod", pod)
}

// release lets the pod go.
func (n *node) release(ctx context.Context, pod *v1.Pod) {
	now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0), Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
	logUnlessStopped(n.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, now), "deletion of pod", pod)
}

func logUnlessStopped(err error, what string, pod *v1.Pod) {
	if err != nil && !errors.Is(err, context.Canceled) {
		log.Printf("%s %s/%s: %v", what, pod.Namespace, pod.Name, err)
	}
}
