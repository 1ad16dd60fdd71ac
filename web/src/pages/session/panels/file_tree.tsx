// The file tree: one flat virtual list; directories are listed when they are opened.
import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useVirtualizer } from "@tanstack/react-virtual";
import { type DragEvent, type KeyboardEvent, useDeferredValue, useMemo, useRef, useState } from "react";
import { type Schemas, get, inAddress, post } from "../../../api/http_client";
import type { FileMark } from "../../../fold/view_types";
import { Field, IconButton } from "../../../shared/form_controls";
import { Icon } from "../../../shared/icons";
import { ProblemLine } from "../../../shared/error_message";
import { pathPattern } from "../../../shared/typed_path_glob";
import { SafeText, showHidden } from "../../../shared/safe_text";
import { strings } from "../../../strings";
import { useSessionContext, useView } from "../session_context";
import { Menu, MenuItem } from "../conversation_rows";
import { type FileAction, FileDialog } from "./file_dialogs";
import { type File, useListings } from "./file_listings";
import { UploadList, useUploads } from "./file_uploads";

type Node = { file: File; level: number; open: boolean; size: number; place: number };

const ROW_PX = matchMedia("(pointer: coarse)").matches ? 44 : 24; // the size of a target under a finger
const MAX_FOUND = 200;
const MARKS: Record<FileMark["kind"], [string, string]> = { created: ["A", "text-ok"], modified: ["M", "text-warn"], deleted: ["D", "text-bad"], moved: ["R", "text-info"] };

const DRAGGED = "application/x-hutch-path";

export function Files({ collapse }: { collapse?: () => void }) {
  const { id, openFile, canChange: canWrite } = useSessionContext();
  const view = useView();
  const [opened, setOpened] = useState<ReadonlySet<string>>(new Set());
  const [filter, setFilter] = useState("");
  const words = useDeferredValue(filter.trim());
  const [selected, setSelected] = useState("");
  const [doing, setDoing] = useState<FileAction | null>(null);
  const scroller = useRef<HTMLDivElement>(null);
  const upload = useRef<HTMLInputElement>(null);
  const queries = useQueryClient();
  const stamp = Object.values(view.files).reduce((last, mark) => Math.max(last, mark.seq), 0);
  const directories = useMemo(() => ["", ...opened], [opened]);
  const listings = useListings(id, directories, stamp);
  const found = useQuery({ queryKey: ["glob", id, words], enabled: words !== "", queryFn: () => get<Schemas["Paths"]>(`/sessions/${id}/glob?limit=${MAX_FOUND}&pattern=${encodeURIComponent(pathPattern(words))}`), placeholderData: (before) => before });
  const lists = useUnchanged(listings.map((each) => each.data));
  // Files of open directories are found at once, those of others when the server has searched.
  const near = useMemo(() => (words ? lists.flatMap((each) => each ?? []).filter((file) => file.kind === "file" && nameOf(file.path).toLowerCase().includes(words.toLowerCase())).slice(0, MAX_FOUND).map((file) => file.path) : []), [words, lists]);
  const paths = found.isPlaceholderData || !found.data ? (near.length ? near : found.data?.paths) : found.data.paths;
  // Made again only for other files: the panel is drawn at each frame of a scroll or of a streamed reply.
  const nodes = useMemo(() => (words ? (paths ?? []).map((path, index, all): Node => ({ file: { path, kind: "file", size: 0, mode: 0, target: null, modified_ms: 0, utf8: true }, level: 1, open: false, size: all.length, place: index + 1 })) : flatten(directories, lists, opened)), [words, paths, directories, lists, opened]);
  const virtual = useVirtualizer({ count: nodes.length, getScrollElement: () => scroller.current, estimateSize: () => ROW_PX, overscan: 10 });
  const dirty = new Set(Object.keys(view.files).flatMap((path) => path.split("/").slice(0, -1).map((_, index, parts) => parts.slice(0, index + 1).join("/"))));
  const renew = () => void queries.invalidateQueries({ queryKey: ["files", id] });
  const uploads = useUploads(id, renew);
  const [error, setError] = useState<unknown>(null);
  const [target, setTarget] = useState<string | null>(null); // the directory under something that is dragged
  const isDirectory = (path: string) => nodes.some((node) => node.file.path === path && node.file.kind === "directory");
  const directoryOf = (path: string) => (isDirectory(path) ? path : parentOf(path));
  const inSelected = directoryOf(selected) && `${directoryOf(selected)}/`;
  const dropped = (event: DragEvent) => directoryOf((event.target as Element).closest<HTMLElement>("[role=treeitem]")?.dataset["path"] ?? "");
  function drop(event: DragEvent) {
    event.preventDefault();
    setTarget(null);
    if (!canWrite) return;
    const directory = dropped(event);
    const moved = event.dataTransfer.getData(DRAGGED);
    if (!moved) return uploads.add([...event.dataTransfer.files], directory);
    const to = directory ? `${directory}/${nameOf(moved)}` : nameOf(moved);
    setError(null);
    if (to !== moved) post(`/sessions/${id}/move`, { path: moved, to }).then(renew, setError);
  }

  const activate = (file: File) => {
    setSelected(file.path);
    if (file.kind === "directory") setOpened((before) => (before.has(file.path) ? new Set([...before].filter((each) => each !== file.path)) : new Set([...before, file.path])));
    else openFile(file.path);
  };
  const typed = useRef({ text: "", at: 0 });
  function onKey(event: KeyboardEvent) {
    const at = nodes.findIndex((node) => node.file.path === selected);
    const node = nodes[at];
    const move = (to: number) => {
      const next = nodes[Math.max(0, Math.min(nodes.length - 1, to))];
      if (next) {
        setSelected(next.file.path);
        virtual.scrollToIndex(nodes.indexOf(next));
      }
    };
    if (event.key === "ArrowDown") move(at + 1);
    else if (event.key === "ArrowUp") move(at - 1);
    else if (event.key === "Home") move(0);
    else if (event.key === "End") move(nodes.length - 1);
    else if (event.key === "Enter" && node) activate(node.file);
    else if (event.key === "ArrowRight" && node?.file.kind === "directory" && !node.open) activate(node.file);
    else if (event.key === "ArrowLeft" && node?.open) activate(node.file);
    else if (event.key === "ArrowLeft" && node) move(nodes.findIndex((each) => each.file.path === node.file.path.split("/").slice(0, -1).join("/")));
    else if (event.key === "F2" && node && canWrite) setDoing({ kind: "rename", path: node.file.path });
    else if (event.key === "Delete" && node && canWrite) setDoing({ kind: "remove", path: node.file.path, isDirectory: node.file.kind === "directory" });
    else if (event.key.length === 1 && !event.ctrlKey && !event.metaKey && !event.altKey) {
      const text = event.timeStamp - typed.current.at < 800 ? typed.current.text + event.key : event.key;
      typed.current = { text, at: event.timeStamp };
      const from = text.length > 1 ? at : at + 1;
      const hit = [...nodes.slice(from), ...nodes.slice(0, from)].find((each) => nameOf(each.file.path).toLowerCase().startsWith(text.toLowerCase()));
      if (hit) move(nodes.indexOf(hit));
    } else return;
    event.preventDefault();
  }
  const failed = listings[0]?.error;
  return (
    <div className="flex h-full flex-col">
      <div className="flex h-8 shrink-0 items-center gap-0.5 border-b bg-frame px-1 pointer-coarse:h-11">
        <Field value={filter} onChange={(event) => setFilter(event.target.value)} placeholder={strings.panel.filterFiles} aria-label={strings.panel.filterFiles} className="!h-6 grow text-12 pointer-coarse:!h-10" />
        {canWrite && (
          <Menu label={strings.session.more} icon="plus">
            <MenuItem icon="file" onSelect={() => setDoing({ kind: "file", path: inSelected })}>{strings.panel.newFile}</MenuItem>
            <MenuItem icon="folder" onSelect={() => setDoing({ kind: "folder", path: inSelected })}>{strings.panel.newFolder}</MenuItem>
            <MenuItem icon="download" onSelect={() => upload.current?.click()}>{strings.panel.upload}</MenuItem>
          </Menu>
        )}
        {collapse && <IconButton icon="chevron" size={12} className="[&_svg]:rotate-180" label={strings.panel.hideFiles} aria-expanded="true" aria-keyshortcuts="Control+B" onClick={collapse} />}
        <input ref={upload} type="file" multiple hidden onChange={(event) => { uploads.add([...(event.target.files ?? [])], directoryOf(selected)); event.target.value = ""; }} />
      </div>
      {failed && <div className="p-1"><ProblemLine error={failed} retry={renew} /></div>}
      {error !== null && <div className="p-1"><ProblemLine error={error} /></div>}
      <UploadList uploads={uploads} />
      <div ref={scroller} className={`min-h-0 grow overflow-auto ${target === "" ? "bg-selected" : ""}`} onDragOver={(event) => { event.preventDefault(); setTarget(dropped(event)); }} onDragLeave={() => setTarget(null)} onDrop={drop}>
        <div role="tree" aria-label={strings.session.files} tabIndex={0} onKeyDown={onKey} aria-activedescendant={selected ? `file-${selected}` : undefined} className="inset-focus relative min-h-full" style={{ height: virtual.getTotalSize() }}>
          {virtual.getVirtualItems().map((item) => {
            const node = nodes[item.index];
            return node && <TreeRow key={node.file.path} node={node} top={item.start} mark={view.files[node.file.path]} dirty={dirty.has(node.file.path)} whole={Boolean(words)} selected={selected === node.file.path || target === node.file.path} activate={activate} act={setDoing} />;
          })}
        </div>
      </div>
      {doing && <FileDialog action={doing} onClose={() => setDoing(null)} onDone={renew} />}
    </div>
  );
}

const nameOf = (path: string) => path.split("/").pop() ?? path;
const parentOf = (path: string) => path.split("/").slice(0, -1).join("/");

/** The list of before, as long as its items are the same. */
function useUnchanged<T>(items: readonly T[]): readonly T[] {
  const [held] = useState(() => ({ items }));
  if (held.items.length !== items.length || items.some((each, index) => each !== held.items[index])) held.items = items;
  return held.items;
}

function flatten(directories: string[], listings: readonly (File[] | undefined)[], opened: ReadonlySet<string>): Node[] {
  const known = new Map(directories.map((path, index) => [path, listings[index]]));
  const walk = (path: string, level: number): Node[] => {
    const files = known.get(path) ?? [];
    return files.flatMap((file, index) => {
      const open = opened.has(file.path);
      const node: Node = { file, level, open, size: files.length, place: index + 1 };
      return open && file.kind === "directory" ? [node, ...walk(file.path, level + 1)] : [node];
    });
  };
  return walk("", 1);
}

type RowProps = { node: Node; top: number; mark: FileMark | undefined; dirty: boolean; whole: boolean; selected: boolean; activate: (file: File) => void; act: (action: FileAction) => void };

function TreeRow({ node, top, mark, dirty, whole, selected, activate, act }: RowProps) {
  const { id, canChange: canWrite } = useSessionContext();
  const { file, level, open } = node;
  const isDirectory = file.kind === "directory";
  const shown = mark && MARKS[mark.kind];
  return (
    <div id={`file-${file.path}`} role="treeitem" aria-level={level} aria-setsize={node.size} aria-posinset={node.place} aria-selected={selected} {...(isDirectory ? { "aria-expanded": open } : {})} data-path={file.path} draggable={canWrite} onDragStart={(event) => event.dataTransfer.setData(DRAGGED, file.path)} onClick={() => activate(file)} style={{ top, paddingLeft: 4 + (level - 1) * 12 }}
      className={`group absolute inset-x-0 flex h-6 items-center gap-1 pr-1 pointer-coarse:h-11 ${selected ? "bg-selected" : "hover:bg-hover"} ${mark?.by === "agent" ? "border-l-2 border-agent" : "border-l-2 border-transparent"}`}>
      <Icon name={isDirectory ? "chevron" : "file"} size={12} className={`text-t3 ${open ? "rotate-90" : ""}`} />
      <span className={`min-w-0 grow truncate text-13 ${shown ? shown[1] : ""}`} title={showHidden(file.path)}><SafeText oneLine text={whole ? file.path : nameOf(file.path)} /></span>
      {isDirectory && dirty && <span className="size-1.5 rounded-full bg-warn" />}
      {(canWrite || !isDirectory) && (
        <span className="opacity-0 group-focus-within:opacity-100 group-hover:opacity-100 pointer-coarse:opacity-100" onClick={(event) => event.stopPropagation()}>
          <Menu label={strings.panel.fileMenu(file.path)}>
            {!isDirectory && <MenuItem icon="download" onSelect={() => window.open(`/api/v1/sessions/${id}/files/${inAddress(file.path)}`, "_self")}>{strings.panel.download}</MenuItem>}
            {canWrite && <MenuItem icon="edit" onSelect={() => act({ kind: "rename", path: file.path })}>{strings.panel.rename}</MenuItem>}
            {canWrite && <MenuItem icon="cross" onSelect={() => act({ kind: "remove", path: file.path, isDirectory })}>{strings.panel.remove}</MenuItem>}
          </Menu>
        </span>
      )}
      {shown && <span className={`w-3 text-center text-11 ${shown[1]}`} title={mark.kind}>{shown[0]}</span>}
    </div>
  );
}
