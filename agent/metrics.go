package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/corebot/corebot"
	"github.com/corebot/corebot/agent/llm"
	"github.com/corebot/corebot/internal/trace"
)

type metrics struct {
	calls *prometheus.CounterVec

	compactions *prometheus.CounterVec
	tooLong     prometheus.Counter
	merged      prometheus.Counter
}

func newMetrics(r prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "corebot_model_calls_total",
			Help: "Calls of a model, by result: ok, transient, rate_limited, permanent, cancelled.",
		}, []string{"model", "result"}),
		compactions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "corebot_compactions_total",
			Help: "Summaries of older messages, by how they were made: model, extract.",
		}, []string{"by"}),
		tooLong: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "corebot_context_too_long_total",
			Help: "Prompts that a provider found too long; each was halved and sent once more.",
		}),
		merged: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "corebot_messages_merged_total",
			Help: "Messages that ended merged: the turn of another took them in, steered or collected.",
		}),
	}
	for _, by := range []string{"model", "extract"} {
		m.compactions.WithLabelValues(by) // shown from the start
	}
	if r == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.calls, m.compactions, m.tooLong, m.merged} {
		if err := r.Register(c); err != nil {
			return nil, fmt.Errorf("register the agent's metrics: %w", err)
		}
	}
	return m, nil
}

// show has the series of a model from the start.
func (m *metrics) show(model string) {
	for _, c := range []corebot.Class{corebot.Transient, corebot.RateLimited, corebot.Permanent, corebot.Cancelled} {
		m.calls.WithLabelValues(model, c.String())
	}
	m.calls.WithLabelValues(model, "ok")
}

// asks makes a call of the model, in a span of its own, and counts it.
func (t *turn) asks(ctx context.Context, r llm.Request, onText func(string)) (corebot.Answer, error) {
	ctx, span := trace.Start(ctx, trace.Client, "chat", t.modelFor())
	answer, err := t.model.Complete(ctx, r, onText)
	t.metrics.called(t.modelName(), err)
	if span.Recorded() {
		span.Text("gen_ai.operation.name", "chat")
		span.Text("gen_ai.request.model", t.modelFor())
		span.Text("gen_ai.response.model", answer.Model)
		span.Text("gen_ai.agent.id", t.who.Key.Agent)
		span.Text("gen_ai.conversation.id", t.who.Key.String())
		span.Number("gen_ai.usage.input_tokens", answer.Usage.InputTokens)
		span.Number("gen_ai.usage.output_tokens", answer.Usage.OutputTokens)
		span.Number("corebot.tool_calls", int64(len(answer.Calls)))
		if err != nil {
			span.Fail(llm.FaultOf(err))
		}
		span.End()
	}
	return answer, err
}

func (m *metrics) called(model string, err error) {
	result := "ok"
	if f := (*corebot.Failure)(nil); errors.As(err, &f) {
		result = f.Class.String()
	} else if err != nil {
		result = corebot.Cancelled.String()
	}
	m.calls.WithLabelValues(model, result).Inc()
}

func (m *metrics) compacted(s corebot.Summary) {
	by := "model"
	if s.Model == "" {
		by = "extract"
	}
	m.compactions.WithLabelValues(by).Inc()
}
