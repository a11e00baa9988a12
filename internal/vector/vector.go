// Package vector packs the vectors of embedding models, and compares them by their angle. A packed vector has one byte
// for each dimension: of two vectors of 500 dimensions the cosine changes by less than 0.01 by that.
package vector

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// MaxDimensions bounds a vector. The largest of today's models have 4,096.
const MaxDimensions = 16_384

// ErrUnusable is a vector that has no direction, or too many dimensions.
var ErrUnusable = errors.New("the vector cannot be used")

const head = 4 // bytes in front of the dimensions: one by the length of the packed vector

// Pack makes bytes of a vector. Its length is lost, and its direction stays.
func Pack(v []float32) ([]byte, error) {
	if len(v) == 0 || len(v) > MaxDimensions {
		return nil, fmt.Errorf("%w: it has %d dimensions", ErrUnusable, len(v))
	}
	largest := 0.0
	for _, x := range v {
		largest = max(largest, math.Abs(float64(x)))
	}
	if largest == 0 || math.IsInf(largest, 0) || math.IsNaN(largest) {
		return nil, fmt.Errorf("%w: its largest number is %v", ErrUnusable, largest)
	}
	packed := make([]byte, head+len(v))
	square := 0.0
	for i, x := range v {
		n := math.Round(float64(x) / largest * math.MaxInt8)
		square += n * n
		packed[head+i] = byte(int8(n))
	}
	binary.LittleEndian.PutUint32(packed, math.Float32bits(float32(1/math.Sqrt(square))))
	return packed, nil
}

// Dimensions of a packed vector.
func Dimensions(packed []byte) int { return max(len(packed)-head, 0) }

// Cosine of the angle between two packed vectors: 1 is the same direction, 0 nothing in common. ok is false for vectors
// that cannot be compared.
func Cosine(a, b []byte) (c float64, ok bool) {
	if len(a) != len(b) || len(a) <= head {
		return 0, false
	}
	return float64(dot(a[head:], b[head:])) * inverse(a) * inverse(b), true
}

// dot adds up at most 2¹⁴ products, each below 2¹⁴: they fit. Four sums at once keep the processor busy.
func dot(a, b []byte) int32 {
	var s0, s1, s2, s3 int32
	for len(a) >= 4 && len(b) >= 4 {
		s0 += int32(int8(a[0])) * int32(int8(b[0]))
		s1 += int32(int8(a[1])) * int32(int8(b[1]))
		s2 += int32(int8(a[2])) * int32(int8(b[2]))
		s3 += int32(int8(a[3])) * int32(int8(b[3]))
		a, b = a[4:], b[4:]
	}
	for i := range min(len(a), len(b)) {
		s0 += int32(int8(a[i])) * int32(int8(b[i]))
	}
	return s0 + s1 + s2 + s3
}

func inverse(packed []byte) float64 {
	return float64(math.Float32frombits(binary.LittleEndian.Uint32(packed)))
}
