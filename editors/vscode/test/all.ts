// One program with all tests: a process for each file would take more time than the tests.
import "./pure.test";
import "./server.test";
