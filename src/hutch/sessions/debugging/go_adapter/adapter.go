// A debug adapter for Go, which runs in the jail. It needs no debugger that traces the program, which a jail
// forbids: it builds the program with calls of package hutchdebugger before each statement. That package, a part
// of the program, answers all requests after the launch; this one passes them on, and the output of the program.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"unicode/utf8"
)

const maxFrameBytes = 8 << 20

type object = map[string]any

type launchArguments struct {
	Directory   string   `json:"directory"` // of the package
	IsTest      bool     `json:"isTest"`
	Arguments   []string `json:"args"`
	StopOnEntry bool     `json:"stopOnEntry"`
}

type request struct {
	Seq       int             `json:"seq"`
	Command   string          `json:"command"`
	Arguments json.RawMessage `json:"arguments"`
}

var (
	sending sync.Mutex
	toHost  = bufio.NewWriter(os.Stdout)
)

func main() {
	var program io.Writer
	input := bufio.NewReader(os.Stdin)
	for {
		frame, err := readFrame(input)
		if err != nil {
			os.Exit(0) // the program gets the end of its requests, and ends too
		}
		if program != nil {
			writeFrame(program, frame)
			continue
		}
		var asked request
		if json.Unmarshal(frame, &asked) != nil {
			os.Exit(1)
		}
		switch asked.Command {
		case "initialize":
			respond(asked, object{"supportsConfigurationDoneRequest": true, "supportsConditionalBreakpoints": true}, nil)
		case "launch":
			var arguments launchArguments
			err := json.Unmarshal(asked.Arguments, &arguments)
			if err == nil {
				program, err = launch(arguments)
			}
			if err == nil {
				send(object{"type": "event", "event": "initialized"})
			}
			respond(asked, nil, err)
		default:
			respond(asked, nil, fmt.Errorf("there is no program"))
		}
	}
}

// launch builds and starts the program, and returns the pipe to its debugger.
func launch(arguments launchArguments) (io.Writer, error) {
	binary, err := build(arguments.Directory, arguments.IsTest)
	if err != nil {
		return nil, err
	}
	command := exec.Command(binary, arguments.Arguments...)
	command.Dir = arguments.Directory
	if arguments.StopOnEntry {
		command.Env = append(os.Environ(), "HUTCH_DEBUGGER_STOP_ON_ENTRY=1")
	}
	theirs, requests, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	replies, theirReplies, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	command.ExtraFiles = []*os.File{theirs, theirReplies} // 3 and 4 in the program
	stdout, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	stderr, err := command.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	theirs.Close()
	theirReplies.Close()
	var reading sync.WaitGroup
	reading.Add(2)
	go forwardOutput(stdout, "stdout", &reading)
	go forwardOutput(stderr, "stderr", &reading)
	go forwardFrames(replies)
	go func() {
		reading.Wait()
		_ = command.Wait()
		send(object{"type": "event", "event": "exited", "body": object{"exitCode": command.ProcessState.ExitCode()}})
		send(object{"type": "event", "event": "terminated"})
	}()
	return requests, nil
}

func forwardFrames(replies io.Reader) {
	reader := bufio.NewReader(replies)
	for {
		frame, err := readFrame(reader)
		if err != nil {
			return
		}
		sending.Lock()
		writeFrame(toHost, frame)
		toHost.Flush()
		sending.Unlock()
	}
}

func forwardOutput(from io.Reader, category string, reading *sync.WaitGroup) {
	defer reading.Done()
	buffer, kept := make([]byte, 16384), 0
	for {
		count, err := from.Read(buffer[kept:])
		count += kept
		cut := count
		for back := 1; back < utf8.UTFMax && back <= count && err == nil; back++ { // a character may not be complete
			if utf8.RuneStart(buffer[count-back]) && !utf8.FullRune(buffer[count-back:count]) {
				cut = count - back
			}
		}
		if cut > 0 {
			body := object{"category": category, "output": string(buffer[:cut])}
			send(object{"type": "event", "event": "output", "body": body})
		}
		kept = copy(buffer, buffer[cut:count])
		if err != nil {
			return
		}
	}
}

func respond(asked request, body object, err error) {
	message := object{"type": "response", "request_seq": asked.Seq, "command": asked.Command, "success": err == nil, "body": body}
	if err != nil {
		message["message"] = err.Error()
	}
	send(message)
}

func send(message object) {
	data, err := json.Marshal(message)
	if err != nil {
		os.Exit(1)
	}
	sending.Lock()
	defer sending.Unlock()
	writeFrame(toHost, data)
	toHost.Flush()
}

func writeFrame(to io.Writer, data []byte) {
	fmt.Fprintf(to, "Content-Length: %d\r\n\r\n%s", len(data), data)
}

func readFrame(from *bufio.Reader) ([]byte, error) {
	length := -1
	for {
		line, err := from.ReadString('\n')
		if err != nil {
			return nil, err
		}
		if line == "\r\n" {
			break
		}
		fmt.Sscanf(line, "Content-Length: %d", &length)
	}
	if length < 0 || length > maxFrameBytes {
		return nil, fmt.Errorf("a frame of %d bytes", length)
	}
	data := make([]byte, length)
	_, err := io.ReadFull(from, data)
	return data, err
}
