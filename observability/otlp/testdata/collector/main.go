// Collector receives spans by the OTLP receiver of the OpenTelemetry collector, and prints each as a line of JSON. It
// is a module of its own, so that Corebot does not depend on the collector.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	if len(os.Args) != 2 {
		return fmt.Errorf("usage: %s HOST:PORT", os.Args[0])
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	factory := otlpreceiver.NewFactory()
	config := factory.CreateDefaultConfig()
	if err := confmap.NewFromStringMap(map[string]any{
		"protocols": map[string]any{"http": map[string]any{"endpoint": os.Args[1]}},
	}).Unmarshal(config); err != nil {
		return err
	}
	prints, err := consumer.NewTraces(print)
	if err != nil {
		return err
	}
	receiver, err := factory.CreateTraces(ctx, receivertest.NewNopSettings(factory.Type()), config, prints)
	if err != nil {
		return err
	}
	if err := receiver.Start(ctx, componenttest.NewNopHost()); err != nil {
		return err
	}
	<-ctx.Done()
	return receiver.Shutdown(context.WithoutCancel(ctx))
}

// print writes spans as lines.
func print(_ context.Context, traces ptrace.Traces) error {
	lines := json.NewEncoder(os.Stdout)
	for _, resource := range traces.ResourceSpans().All() {
		for _, scope := range resource.ScopeSpans().All() {
			for _, s := range scope.Spans().All() {
				if err := lines.Encode(map[string]any{
					"trace": s.TraceID().String(), "span": s.SpanID().String(), "parent": s.ParentSpanID().String(),
					"name": s.Name(), "kind": s.Kind().String(), "status": s.Status().Code().String(),
					"took":       s.EndTimestamp().AsTime().Sub(s.StartTimestamp().AsTime()).String(),
					"attributes": s.Attributes().AsRaw(), "resource": resource.Resource().Attributes().AsRaw(),
					"scope": scope.Scope().Name(),
				}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}
