import { Link } from "wouter";
import { useLogin } from "../login_state";
import { SafeText } from "../shared/safe_text";
import { strings } from "../strings";

export function NotFound() {
  const user = useLogin().data?.user;
  return (
    <main className="grid h-full place-items-center p-6 text-center">
      <div>
        <h1 className="text-16 font-semibold">{strings.error.notFound}</h1>
        {user && <p className="mt-1 text-t2"><SafeText text={strings.error.whoAmI(user.name)} /></p>}
        <Link href="/" className="mt-3 inline-block text-link underline">{strings.error.home}</Link>
      </div>
    </main>
  );
}
