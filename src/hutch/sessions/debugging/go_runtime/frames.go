// Package hutchdebugger is built into a Go program that is debugged: the program calls it at the beginning and end
// of each function, and before each statement. It stops the program there, and answers the Debug Adapter Protocol.
package hutchdebugger

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
)

// Frame is a call of a function.
type Frame struct {
	routine *routine
	caller  *Frame
	depth   int
	file    int
	name    string
	line    int
	read    func() []interface{} // names and addresses of its variables
}

// routine is a goroutine with a function of the program on its stack.
type routine struct {
	id      int
	top     *Frame
	unwound []*Frame // the frames that were left since the last statement: those of a panic
	isFree  bool     // it evaluates for the debugger, and never stops
}

type sourceFile struct {
	path  string
	lines []int // with statements, increasing
}

type stepKind int

const (
	noStep stepKind = iota
	stepIn
	stepOver
	stepOut
)

var (
	routines   sync.Map     // by number
	isWatching atomic.Bool  // something may stop the program
	globals    sync.Map     // functions that read them, by the number of a file
	world      = newWorld() // what all goroutines wait for
)

type worldState struct {
	sync.Mutex
	resumed     *sync.Cond
	isStopped   bool
	current     *routine // that has stopped
	frames      []*Frame // of `current`, the innermost first
	step        stepKind
	stepRoutine *routine
	stepDepth   int
	isPausing   bool
	isEntering  bool
	breakpoints map[int]map[int]string // by file and line: the condition
}

func newWorld() *worldState {
	made := &worldState{breakpoints: map[int]map[int]string{}, isEntering: os.Getenv("HUTCH_DEBUGGER_STOP_ON_ENTRY") != ""}
	made.resumed = sync.NewCond(made)
	return made
}

// watch says again whether goroutines have to look at each statement. With the world locked.
func (w *worldState) watch() {
	isWatching.Store(w.isStopped || w.step != noStep || w.isPausing || w.isEntering || len(w.breakpoints) > 0)
}

// AddGlobals takes in the variables of a file outside of functions.
func AddGlobals(file int, read func() []interface{}) {
	if read != nil {
		globals.Store(file, read)
	}
}

// Enter begins a call.
func Enter(file int, name string) *Frame {
	id := routineNumber()
	found, isKnown := routines.Load(id)
	if !isKnown {
		found, _ = routines.LoadOrStore(id, &routine{id: id})
	}
	in := found.(*routine)
	in.unwound = nil
	frame := &Frame{routine: in, caller: in.top, file: file, name: name}
	if frame.caller != nil {
		frame.depth = frame.caller.depth + 1
	}
	in.top = frame
	return frame
}

// Exit ends a call. The first one of a goroutine stops a panic that nothing has recovered.
func (frame *Frame) Exit() {
	in := frame.routine
	in.unwound = append(in.unwound, frame)
	in.top = frame.caller
	if frame.caller != nil {
		return
	}
	defer routines.Delete(in.id)
	if in.isFree {
		return
	}
	if cause := recover(); cause != nil {
		world.Lock()
		world.stop(in, stackOfPanic(in.unwound), "exception", fmt.Sprint("panic: ", cause))
		world.Unlock()
		panic(cause)
	}
}

// See comes before a statement.
func (frame *Frame) See(line int, read func() []interface{}) {
	frame.line, frame.read = line, read
	in := frame.routine
	in.unwound = nil
	if !isWatching.Load() || in.isFree {
		return
	}
	world.Lock()
	defer world.Unlock()
	for world.isStopped {
		world.resumed.Wait()
	}
	if reason, text := world.reason(frame); reason != "" {
		world.stop(in, stackOf(in), reason, text)
	}
}

func stackOf(in *routine) []*Frame {
	var frames []*Frame
	for frame := in.top; frame != nil; frame = frame.caller {
		frames = append(frames, frame)
	}
	return frames
}

// stackOfPanic leaves out calls that had returned before the panic.
func stackOfPanic(unwound []*Frame) []*Frame {
	last := len(unwound) - 1
	frames := []*Frame{unwound[last]}
	for i := last - 1; i >= 0; i-- {
		if unwound[i].caller == frames[0] {
			frames = append([]*Frame{unwound[i]}, frames...)
		}
	}
	return frames
}

// reason says why the program stops at this statement; empty if it does not.
func (w *worldState) reason(frame *Frame) (string, string) {
	if w.isEntering {
		return "entry", ""
	}
	if w.isPausing {
		return "pause", ""
	}
	if condition, isSet := w.breakpoints[frame.file][frame.line]; isSet {
		if condition == "" {
			return "breakpoint", ""
		}
		frame.routine.isFree = true
		result, err := evaluate(condition, frame)
		frame.routine.isFree = false
		if err != nil {
			return "breakpoint", fmt.Sprintf("The condition %q failed: %s", condition, err)
		}
		if holds(result) {
			return "breakpoint", ""
		}
	}
	if w.step != noStep && frame.routine == w.stepRoutine {
		switch {
		case w.step == stepIn, w.step == stepOver && frame.depth <= w.stepDepth, frame.depth < w.stepDepth:
			return "step", ""
		}
	}
	return "", ""
}

// stop waits until the program continues. With the world locked.
func (w *worldState) stop(in *routine, frames []*Frame, reason, text string) {
	for w.isStopped { // another goroutine was first
		w.resumed.Wait()
	}
	w.isStopped, w.current, w.frames = true, in, frames
	w.step, w.isPausing, w.isEntering = noStep, false, false
	w.watch()
	forgetValues()
	body := object{"reason": reason, "threadId": in.id, "allThreadsStopped": true}
	if text != "" {
		body["text"] = shorten(text, maxValueChars)
	}
	sendEvent("stopped", body)
	for w.isStopped {
		w.resumed.Wait()
	}
}

// resume lets the program continue. With the world locked.
func (w *worldState) resume(step stepKind) {
	w.step, w.stepRoutine, w.stepDepth = step, w.current, 0
	if len(w.frames) > 0 {
		w.stepDepth = w.frames[0].depth
	}
	w.isStopped, w.frames = false, nil
	w.watch()
	w.resumed.Broadcast()
}

// routineNumber is the number of the running goroutine, which only its stack trace tells.
func routineNumber() int {
	var buffer [40]byte
	count := runtime.Stack(buffer[:], false)
	number := 0
	for _, each := range buffer[len("goroutine "):count] {
		if each < '0' || each > '9' {
			break
		}
		number = number*10 + int(each-'0')
	}
	return number
}
