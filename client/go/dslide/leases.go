package dslide

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	v1 "dslide.dev/gen/dslide/v1"
)

const (
	renewEvery      = time.Second
	leaseTimeout    = 10 * time.Second
	leavingLimit    = 5 * time.Second
	coordinatorAway = 2 * time.Minute // for so long the coordinator may be away
)

// Leases are a trainer's parts of a job's work: it asks for work, and renews in the background what
// it holds. Made by Steps.Join.
type Leases struct {
	cluster  *Cluster
	job      *v1.JobSpec
	clientID []byte

	mutex    sync.Mutex // of a call and of what it reports
	held     []uint64
	finished []*v1.WorkReport

	stop func()
	done chan struct{}
}

// JobOf returns the spec of a job that trains a model on so many points, as `dslide train` says it:
// trainers of all languages that are given the same data and model share one. evaluate: whether the
// coordinator asks for a measurement after each epoch. fingerprint: any number that all trainers
// compute in the same way from the data.
func JobOf(name string, spec *v1.ModelSpec, points int64, evaluate bool, fingerprint uint64) *v1.JobSpec {
	training := spec.Training
	job := &v1.JobSpec{Job: name, Model: spec.GetName(), SamplesPerEpoch: points,
		ChunkSamples: training.GetChunkSamples(), MaxEpochs: training.GetMaxEpochs(),
		PatienceEpochs: training.GetPatienceEpochs(), Evaluate: evaluate, Seed: training.GetOrderSeed(),
		DataFingerprint: fingerprint, Training: training}
	if job.ChunkSamples == 0 {
		job.ChunkSamples = 16 * training.GetBatchSize()
	}
	if job.Seed == 0 {
		job.Seed = spec.GetSeed()
	}
	for _, table := range spec.Tables {
		if table.Optimizer != nil {
			job.Rates = append(job.Rates, &v1.TableRate{Table: table.Name,
				LearningRate: table.Optimizer.LearningRate, Schedule: table.Optimizer.Schedule})
		}
	}
	return job
}

// Join opens a training job, or joins the one of that name, as this client. Its envelopes have to
// name the same job. ErrInvalidArgument: the job's settings differ.
func (s *Steps) Join(ctx context.Context, job *v1.JobSpec) (*Leases, error) {
	if job.GetJob() != s.job {
		return nil, invalid("the steps were opened for job %q, not for %q", s.job, job.GetJob())
	}
	l := &Leases{cluster: s.model.cluster, job: proto.Clone(job).(*v1.JobSpec), clientID: s.clientID,
		done: make(chan struct{})}
	if err := l.register(ctx); err != nil {
		return nil, err
	}
	renewing, stop := context.WithCancel(context.Background())
	l.stop = stop
	go l.renew(renewing)
	return l, nil
}

func (l *Leases) register(ctx context.Context) error {
	_, err := call(ctx, l.cluster.coordinator, "RegisterJob", l.cluster.control.RegisterJob,
		&v1.RegisterJobRequest{Spec: l.job, ClientId: l.clientID})
	return err
}

func (l *Leases) renew(ctx context.Context) {
	defer close(l.done)
	ticker := time.NewTicker(renewEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			_, _ = l.ask(ctx, false) // a renewal that is lost shows at the next call that wants work
		}
	}
}

// ask reports, renews and, with wantWork, asks for more. One attempt.
func (l *Leases) ask(ctx context.Context, wantWork bool) (*v1.AcquireWorkResponse, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	ctx, cancel := context.WithTimeout(ctx, min(l.cluster.options.Timeout, leaseTimeout))
	defer cancel()
	answer, err := once(ctx, l.cluster.coordinator, "AcquireWork", l.cluster.control.AcquireWork,
		&v1.AcquireWorkRequest{Job: l.job.Job, ClientId: l.clientID, Finished: l.finished, Held: l.held, WantWork: wantWork})
	if err != nil {
		return nil, err
	}
	l.finished = nil
	if id := leaseOf(answer); id != 0 {
		l.held = append(l.held, id)
	}
	return answer, nil
}

func leaseOf(work *v1.AcquireWorkResponse) uint64 {
	return work.GetChunk().GetLeaseId() | work.GetEvaluation().GetLeaseId() | work.GetStage().GetLeaseId()
}

// Next reports what is finished and returns the next work: a chunk, an evaluation, a stage, or the
// end of the job. It waits while other trainers have all that there is. A coordinator that was
// restarted and has forgotten the job is told of it again: what was held is then no more, and a
// report of it is ignored.
//
// An evaluation or a stage comes when no step is in flight anywhere: have none in flight when you
// ask.
func (l *Leases) Next(ctx context.Context) (*v1.AcquireWorkResponse, error) {
	awaySince := time.Time{}
	for number := 1; ; number++ {
		work, err := l.ask(ctx, true)
		switch {
		case err == nil:
			if work.GetWait() == nil {
				return work, nil
			}
			awaySince, number = time.Time{}, 1
			if err := sleep(ctx, work.GetWait().RetryAfter.AsDuration()); err != nil {
				return nil, waitError(err)
			}
		case errors.Is(err, ErrNotFound):
			if err := l.joinAgain(ctx); err != nil {
				return nil, err
			}
		case ctx.Err() == nil && (errors.Is(err, ErrUnavailable) || errors.Is(err, ErrDeadlineExceeded)):
			if awaySince.IsZero() {
				awaySince = time.Now()
			}
			pause := retryPause(asError(err), number)
			if time.Since(awaySince)+pause >= coordinatorAway || sleep(ctx, pause) != nil {
				return nil, err
			}
		default:
			return nil, err
		}
	}
}

func waitError(cause error) error {
	e := invalid("the context ended before there was work for this trainer")
	e.Code, e.cause = ErrDeadlineExceeded.Code, cause
	return e
}

func (l *Leases) joinAgain(ctx context.Context) error {
	l.mutex.Lock()
	l.held, l.finished = nil, nil
	l.mutex.Unlock()
	return l.register(ctx)
}

// Finish says what became of a lease. The next call of Next reports it. Leases that are not held any
// more are ignored.
func (l *Leases) Finish(report *v1.WorkReport) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if i := slices.Index(l.held, report.LeaseId); i >= 0 {
		l.held = slices.Delete(l.held, i, i+1)
		l.finished = append(l.finished, report)
	}
}

// Close returns the leases, so that nobody waits for them to run out. A coordinator that is gone has
// nothing to take back.
func (l *Leases) Close() {
	l.stop()
	<-l.done
	ctx, cancel := context.WithTimeout(context.Background(), leavingLimit)
	defer cancel()
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if len(l.finished) > 0 {
		_, _ = once(ctx, l.cluster.coordinator, "AcquireWork", l.cluster.control.AcquireWork,
			&v1.AcquireWorkRequest{Job: l.job.Job, ClientId: l.clientID, Finished: l.finished, Held: l.held})
	}
	_, _ = once(ctx, l.cluster.coordinator, "LeaveJob", l.cluster.control.LeaveJob,
		&v1.LeaveJobRequest{Job: l.job.Job, ClientId: l.clientID})
}
