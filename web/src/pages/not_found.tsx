import { Link } from "wouter";
import { strings } from "../strings";

export function NotFound() {
  return (
    <main className="grid h-full place-items-center p-6 text-center">
      <div>
        <h1 className="text-16 font-semibold">{strings.error.notFound}</h1>
        <Link href="/" className="mt-3 inline-block text-link underline">{strings.error.home}</Link>
      </div>
    </main>
  );
}
