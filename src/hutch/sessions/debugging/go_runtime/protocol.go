package hutchdebugger

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"sync"
	"syscall"
	"time"
)

const (
	maxFrames       = 200
	evaluateTimeout = 10 * time.Second
)

type object = map[string]interface{}

type request struct {
	Seq       int    `json:"seq"`
	Command   string `json:"command"`
	Arguments struct {
		Source struct {
			Path string `json:"path"`
		} `json:"source"`
		Breakpoints []struct {
			Line      int    `json:"line"`
			Condition string `json:"condition"`
		} `json:"breakpoints"`
		ThreadID   int    `json:"threadId"`
		Levels     int    `json:"levels"`
		FrameID    int    `json:"frameId"`
		Reference  int    `json:"variablesReference"`
		Expression string `json:"expression"`
	} `json:"arguments"`
}

var (
	sending    sync.Mutex
	requests   = os.NewFile(3, "requests")
	responses  = os.NewFile(4, "responses")
	configured = make(chan struct{})
	configure  sync.Once
	shown      []*Frame // the frames whose numbers were told at this stop
)

// The functions and variables of the program come after this: its packages import this one.
func init() {
	syscall.CloseOnExec(3)
	syscall.CloseOnExec(4)
	go serve()
	<-configured
}

func serve() {
	reader := bufio.NewReader(requests)
	for {
		var asked request
		length := -1
		for line := ""; line != "\r\n"; {
			var err error
			if line, err = reader.ReadString('\n'); err != nil {
				os.Exit(1) // the debugger is gone
			}
			fmt.Sscanf(line, "Content-Length: %d", &length)
		}
		if length < 0 {
			os.Exit(1)
		}
		data := make([]byte, length)
		if _, err := io.ReadFull(reader, data); err != nil {
			os.Exit(1)
		}
		err := json.Unmarshal(data, &asked)
		var body object
		if err == nil {
			body, err = answer(&asked)
		}
		message := object{"type": "response", "request_seq": asked.Seq, "command": asked.Command, "success": err == nil, "body": body}
		if err != nil {
			message["message"] = err.Error()
		}
		send(message)
	}
}

func answer(asked *request) (object, error) {
	world.Lock()
	defer world.Unlock()
	switch asked.Command {
	case "setBreakpoints":
		return setBreakpoints(asked), nil
	case "setExceptionBreakpoints":
		return nil, nil
	case "configurationDone":
		world.watch()
		configure.Do(func() { close(configured) })
		return nil, nil
	case "threads":
		return threads(), nil
	case "pause":
		world.isPausing = !world.isStopped
		world.watch()
		return nil, nil
	case "disconnect":
		os.Exit(0)
	}
	if !world.isStopped {
		return nil, fmt.Errorf("the program runs")
	}
	switch asked.Command {
	case "continue":
		world.resume(noStep)
	case "next":
		world.resume(stepOver)
	case "stepIn":
		world.resume(stepIn)
	case "stepOut":
		world.resume(stepOut)
	case "stackTrace":
		return stackTrace(asked.Arguments.ThreadID, asked.Arguments.Levels), nil
	case "scopes":
		frame, err := frameOf(asked.Arguments.FrameID)
		if err != nil {
			return nil, err
		}
		return scopes(frame), nil
	case "variables":
		parts, err := partsOf(asked.Arguments.Reference)
		return object{"variables": parts}, err
	case "evaluate":
		frame, err := frameOf(asked.Arguments.FrameID)
		if err != nil {
			return nil, err
		}
		return evaluateFor(asked.Arguments.Expression, frame)
	default:
		return nil, fmt.Errorf("%s is not supported", asked.Command)
	}
	return nil, nil
}

func setBreakpoints(asked *request) object {
	file := -1
	for index, each := range sourceFiles {
		if each.path == filepath.Clean(asked.Arguments.Source.Path) {
			file = index
		}
	}
	delete(world.breakpoints, file)
	found := map[int]string{}
	set := make([]object, 0)
	for _, each := range asked.Arguments.Breakpoints {
		if file < 0 {
			set = append(set, object{"verified": false, "message": "This file is not a part of the program."})
			continue
		}
		lines := sourceFiles[file].lines
		at := sort.SearchInts(lines, each.Line)
		if at == len(lines) {
			set = append(set, object{"verified": false, "message": "There is no statement at this line or below it."})
			continue
		}
		found[lines[at]] = each.Condition
		set = append(set, object{"verified": true, "line": lines[at]})
	}
	if len(found) > 0 {
		world.breakpoints[file] = found
	}
	world.watch()
	return object{"breakpoints": set}
}

func threads() object {
	found := make([]object, 0)
	routines.Range(func(id, each interface{}) bool {
		if !each.(*routine).isFree {
			found = append(found, object{"id": id, "name": fmt.Sprintf("goroutine %d", id)})
		}
		return true
	})
	sort.Slice(found, func(i, j int) bool { return found[i]["id"].(int) < found[j]["id"].(int) })
	return object{"threads": found}
}

func stackTrace(thread, levels int) object {
	frames := world.frames
	if thread != world.current.id {
		frames = nil
		if found, isKnown := routines.Load(thread); isKnown {
			frames = stackOf(found.(*routine))
		}
	}
	total := len(frames)
	if levels <= 0 || levels > maxFrames {
		levels = maxFrames
	}
	if total > levels {
		frames = frames[:levels]
	}
	told := make([]object, 0)
	for _, each := range frames {
		path := sourceFiles[each.file].path
		source := object{"path": path, "name": filepath.Base(path)}
		told = append(told, object{"id": numberOf(each), "name": each.name, "line": each.line, "column": 1, "source": source})
	}
	return object{"stackFrames": told, "totalFrames": total}
}

func numberOf(frame *Frame) int {
	for index, each := range shown {
		if each == frame {
			return index + 1
		}
	}
	shown = append(shown, frame)
	return len(shown)
}

func frameOf(number int) (*Frame, error) {
	if number < 1 || number > len(shown) {
		return nil, fmt.Errorf("there is no frame %d", number)
	}
	return shown[number-1], nil
}

func scopes(frame *Frame) object {
	found := []object{{"name": "Local", "variablesReference": referTo(variablesOf(frame)), "expensive": false}}
	if all := globalsOf(frame); len(all) > 0 {
		found = append(found, object{"name": "Package", "variablesReference": referTo(all), "expensive": false})
	}
	return object{"scopes": found}
}

// evaluateFor evaluates in a goroutine of its own, which does not stop at breakpoints.
func evaluateFor(expression string, frame *Frame) (object, error) {
	type outcome struct {
		body object
		err  error
	}
	done := make(chan outcome, 1)
	go func() {
		id := routineNumber()
		routines.Store(id, &routine{id: id, isFree: true})
		defer routines.Delete(id)
		result, err := evaluate(expression, frame)
		if err != nil {
			done <- outcome{nil, err}
			return
		}
		described := describe("", result)
		described["result"] = described["value"]
		done <- outcome{described, nil}
	}()
	select {
	case each := <-done:
		return each.body, each.err
	case <-time.After(evaluateTimeout):
		return nil, fmt.Errorf("it did not end within %s", evaluateTimeout)
	}
}

func sendEvent(name string, body object) {
	send(object{"type": "event", "event": name, "body": body})
}

func send(message object) {
	data, err := json.Marshal(message)
	if err != nil {
		data = []byte(`{"type": "event", "event": "unreadable"}`)
	}
	sending.Lock()
	defer sending.Unlock()
	fmt.Fprintf(responses, "Content-Length: %d\r\n\r\n%s", len(data), data)
}
