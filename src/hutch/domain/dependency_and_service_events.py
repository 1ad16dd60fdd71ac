"""Events about the dependencies that are installed for a session."""

from typing import Literal

from hutch.domain.base_event import Event


class EnvironmentBuildStarted(Event):
    """The set-up of a repository's dependencies began, in a jail of its own."""

    type: Literal["environment.build_started"] = "environment.build_started"
    layer: str
    steps: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()


class EnvironmentBuilt(Event):
    """The dependencies were installed, and are kept as a layer that later sessions share."""

    type: Literal["environment.built"] = "environment.built"
    layer: str
    bytes: int = 0
    files: int = 0
    dropped: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()  # optional commands, each with its reason
    duration_s: float = 0.0


class EnvironmentFailed(Event):
    """The dependencies could not be installed; the session goes on without them."""

    type: Literal["environment.failed"] = "environment.failed"
    layer: str
    reason: str
    output: str = ""
    denied: tuple[str, ...] = ()
    duration_s: float = 0.0


class ServiceStarted(Event):
    """A service that tests need was started in the session's jail."""

    type: Literal["service.started"] = "service.started"
    service: str
    command: str = ""
    port: int = 0


class ServiceAnswered(Event):
    """A service that tests need is ready."""

    type: Literal["service.answered"] = "service.answered"
    service: str
    duration_s: float = 0.0
    found: bool = False  # it was running already, started by the agent or a user


class ServiceFailed(Event):
    """A service that tests need is not ready, so the tests do not run."""

    type: Literal["service.failed"] = "service.failed"
    service: str
    reason: str
    output: str = ""


class ServiceStopped(Event):
    """The jail of a service was closed. The end of the service's log is kept here."""

    type: Literal["service.stopped"] = "service.stopped"
    service: str
    output: str = ""


class EnvironmentAttached(Event):
    """The session has the installed dependencies of a layer in these paths."""

    type: Literal["environment.attached"] = "environment.attached"
    layer: str
    roots: tuple[str, ...] = ()
    bytes: int = 0


DependencyEvent = (
    EnvironmentBuildStarted
    | EnvironmentBuilt
    | EnvironmentFailed
    | EnvironmentAttached
    | ServiceStarted
    | ServiceAnswered
    | ServiceFailed
    | ServiceStopped
)
