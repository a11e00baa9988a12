package storage

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// collector reads the figures of the queue when somebody scrapes them.
type collector struct{ queue *Queue }

var (
	depthDesc  = prometheus.NewDesc("corebot_queue_messages", "Messages that wait or run, by pool.", []string{"pool"}, nil)
	laneDesc   = prometheus.NewDesc("corebot_queue_lanes", "Lanes with messages, by pool and state of their head: ready, leased, waiting.", []string{"pool", "state"}, nil)
	deadDesc   = prometheus.NewDesc("corebot_dead_letters", "Messages in the dead letters, by direction and reason.", []string{"direction", "reason"}, nil)
	oldestDesc = prometheus.NewDesc("corebot_oldest_unanswered_seconds", "Age of the oldest accepted inbound message that has not ended; 0 if there is none.", nil, nil)
	parkedDesc = prometheus.NewDesc("corebot_parked_messages", "Messages that have left their lanes until a time, by reason.", []string{"reason"}, nil)
	waitDesc   = prometheus.NewDesc("corebot_approvals_waiting", "Calls of tools that wait for an admin's word.", nil, nil)
	asideDesc  = prometheus.NewDesc("corebot_lanes_set_aside", "Chats whose next message cannot be read from the database; `corebot status` names them.", nil, nil)
	unreadDesc = prometheus.NewDesc("corebot_store_unread_figures", "Figures that could not be read for this scrape because a page of the database is damaged.", nil, nil)
	bytesDesc  = prometheus.NewDesc("corebot_store_file_bytes", "Size of the database's files.", []string{"file"}, nil)
)

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{depthDesc, laneDesc, deadDesc, oldestDesc, parkedDesc, waitDesc, asideDesc, unreadDesc, bytesDesc} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	s, err := c.queue.Stats(context.Background())
	if err != nil {
		out <- prometheus.NewInvalidMetric(depthDesc, err)
		return
	}
	read := func(figure string) bool { return s.Unread[figure] == "" }
	for pool, p := range s.Pools {
		gauge(depthDesc, float64(p.Depth), string(pool))
		gauge(laneDesc, float64(p.Leased), string(pool), "leased")
		gauge(laneDesc, float64(p.Waiting), string(pool), "waiting")
		gauge(laneDesc, float64(p.Lanes-p.Leased-p.Waiting), string(pool), "ready")
	}
	if read(figureAside) {
		gauge(asideDesc, float64(len(s.Aside)))
	}
	for death, n := range s.DeadFor {
		gauge(deadDesc, float64(n), death.Direction.String(), death.Reason)
	}
	for reason, n := range s.Parked {
		gauge(parkedDesc, float64(n), reason)
	}
	if read(figureAwaited) {
		gauge(waitDesc, float64(s.Awaited))
	}
	if read(figureOldest) {
		age := 0.0
		if !s.OldestUnanswered.IsZero() {
			age = time.Since(s.OldestUnanswered).Seconds()
		}
		gauge(oldestDesc, age)
	}
	gauge(unreadDesc, float64(len(s.Unread)))
	for name, size := range c.queue.db.fileSizes() {
		gauge(bytesDesc, float64(size), name)
	}
}
