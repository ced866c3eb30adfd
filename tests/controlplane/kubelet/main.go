// Command kubelet does what a node's kubelet does with claims, by the kubelet's own code: it admits the pods that are
// bound to the node, prepares their claims with the DRA manager, and unprepares them. The manager calls drivers that
// are made with the library of real drivers, over sockets at which they have registered. No container is started.
//
// Each step, and each claim that reaches a driver, is a line of JSON in a file, written before the pod shows the step.
// A pod whose claims are prepared is Running. One that is refused is Failed, and its message says why; a kubelet would
// prepare it again and again. One that is deleted goes away once its claims are unprepared.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/record"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	"k8s.io/kubernetes/pkg/kubelet/cm/dra"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/pluginmanager"
)

const registrationPoll = 10 * time.Millisecond

type options struct {
	kubeconfig, node, drivers, records, gates string
}

func main() {
	var given options
	flag.StringVar(&given.kubeconfig, "kubeconfig", "", "of somebody who may do what kubelets and drivers may")
	flag.StringVar(&given.node, "node", "", "the name of the node")
	flag.StringVar(&given.drivers, "drivers", "", `a file: {DRIVER: {"pools": {...}}} to publish them, {DRIVER: {}} for none`)
	flag.StringVar(&given.records, "records", "", "the file for what happens")
	flag.StringVar(&given.gates, "feature-gates", "", "as the kubelet takes them")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, given); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, given options) error {
	if err := utilfeature.DefaultMutableFeatureGate.Set(given.gates); err != nil {
		return fmt.Errorf("--feature-gates: %w", err)
	}
	drivers, err := read(given.drivers)
	if err != nil {
		return fmt.Errorf("--drivers: %w", err)
	}
	steps, err := newRecords(given.records)
	if err != nil {
		return fmt.Errorf("--records: %w", err)
	}
	folder, err := os.MkdirTemp("", "kubelet") // short: the path of a socket has at most 107 characters
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	return serve(ctx, given, folder, drivers, steps)
}

func serve(ctx context.Context, given options, folder string, drivers map[string]resourceslice.DriverResources, steps *records) error {
	wiped := make(chan struct{})
	client, err := connect(given.kubeconfig, sync.OnceFunc(func() { close(wiped) }))
	if err != nil {
		return fmt.Errorf("--kubeconfig: %w", err)
	}
	manager, err := dra.NewManager(klog.FromContext(ctx), client, folder)
	if err != nil {
		return err
	}
	pods := podsOf(client, given.node)
	registry := filepath.Join(folder, "registry")
	if err := os.Mkdir(registry, 0o700); err != nil {
		return err
	}
	if err := start(ctx, manager, pods.active, given.node, registry); err != nil {
		return err
	}
	select {
	case <-wiped: // or else what the drivers publish would be deleted again
	case <-ctx.Done():
		return nil
	}
	for name, resources := range drivers {
		made := &driver{name: name, records: steps, held: map[claimID][]result{}}
		if err := made.start(ctx, client, given.node, folder, resources); err != nil {
			return fmt.Errorf("driver %s: %w", name, err)
		}
	}
	return newNode(given.node, client, manager, steps).follow(ctx, pods)
}

// start lets the manager know drivers that register in the folder.
func start(ctx context.Context, manager *dra.Manager, active func() []*v1.Pod, node, registry string) error {
	ready := config.NewSourcesReady(func(sets.Set[string]) bool { return true })
	// Only the name is used. Whether the node is there yet is the tests' business.
	named := func(context.Context) (*v1.Node, error) {
		found := &v1.Node{}
		found.Name = node
		return found, nil
	}
	if err := manager.Start(ctx, active, named, ready); err != nil {
		return err
	}
	plugins := pluginmanager.NewPluginManager(registry, &record.FakeRecorder{})
	plugins.AddHandler(registerapi.DRAPlugin, manager.GetWatcherHandler())
	go plugins.Run(ctx, ready, ctx.Done())
	return nil
}

// connect speaks protobuf, as kubelets do. wiped: is called when slices were deleted, which the manager does when it
// starts, and says nowhere.
func connect(kubeconfig string, wiped func()) (kubernetes.Interface, error) {
	found, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	found.ContentType = "application/vnd.kubernetes.protobuf"
	found.QPS = -1
	found.Wrap(func(next http.RoundTripper) http.RoundTripper { return deletions{next, wiped} })
	return kubernetes.NewForConfig(found)
}

// deletions calls `done` after each collection of slices that was deleted.
type deletions struct {
	http.RoundTripper
	done func()
}

func (d deletions) RoundTrip(request *http.Request) (*http.Response, error) {
	answer, err := d.RoundTripper.RoundTrip(request)
	isWipe := request.Method == http.MethodDelete && strings.HasSuffix(request.URL.Path, "/resourceslices")
	if err == nil && answer.StatusCode == http.StatusOK && isWipe {
		d.done()
	}
	return answer, err
}

func read(path string) (map[string]resourceslice.DriverResources, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	found := map[string]resourceslice.DriverResources{}
	return found, json.Unmarshal(text, &found)
}

// await returns when the kubelet has registered the driver.
func await(ctx context.Context, helper *kubeletplugin.Helper) error {
	var refused error
	err := wait.PollUntilContextCancel(ctx, registrationPoll, true, func(context.Context) (bool, error) {
		status := helper.RegistrationStatus()
		if status != nil && !status.PluginRegistered {
			refused = errors.New(status.Error)
		}
		return status != nil, refused
	})
	return err
}
