// An error of a page or panel shows here, and nowhere else goes blank.
import { Component, type ReactNode } from "react";
import { asProblem, lastTrace } from "../api/http_client";
import { strings } from "../strings";
import { Button } from "./form_controls";
import { SafeText } from "./safe_text";

export class Boundary extends Component<{ children: ReactNode; what?: string }, { error: Error | null }> {
  override state = { error: null as Error | null };

  static getDerivedStateFromError(error: Error) {
    return { error };
  }

  override render() {
    const { error } = this.state;
    if (!error) return this.props.children;
    const trace = asProblem(error).traceId || lastTrace;
    return (
      <div role="alert" className="m-4 max-w-lg rounded-card border bg-panel p-4">
        <p className="font-semibold">{strings.error.broken(this.props.what ?? strings.error.page)}</p>
        <pre tabIndex={0} className="mt-2 overflow-auto text-t2"><SafeText text={error.message} /></pre>
        {trace && <p className="meta mt-1 select-all">{strings.error.trace(trace)}</p>}
        <div className="mt-3 flex gap-2">
          <Button onClick={() => this.setState({ error: null })}>{strings.error.again}</Button>
          <Button kind="quiet" onClick={() => location.reload()}>{strings.error.reload}</Button>
        </div>
      </div>
    );
  }
}
