// Asks for the time a known number of times, from several threads, and goes on doing so if it is told to.
package main

import (
	"os"
	"sync"
	"time"
)

//go:noinline
func asks(n int) (sum time.Duration) {
	for i := 0; i < n; i++ {
		sum += time.Since(time.Now())
	}
	return sum
}

func main() {
	var all sync.WaitGroup
	for i := 0; i < 4; i++ {
		all.Add(1)
		go func() { defer all.Done(); asks(250) }()
	}
	all.Wait()
	for len(os.Args) > 1 {
		asks(10)
		time.Sleep(time.Millisecond)
	}
}
