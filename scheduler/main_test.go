package scheduler

import (
	"testing"

	"github.com/corebot/corebot/storage/seedtest"
)

func TestMain(m *testing.M) { seedtest.Main(m) }
