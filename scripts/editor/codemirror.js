// What scripts/get_editor bundles into build/editor/codemirror.js: CodeMirror for Python, as web/editor.js
// calls it. It lives in a shadow root: only there do its styles come without a <style> element.

import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { python } from "@codemirror/lang-python";
import { HighlightStyle, bracketMatching, indentOnInput, indentUnit, syntaxHighlighting } from "@codemirror/language";
import { lintGutter, setDiagnostics } from "@codemirror/lint";
import { EditorState } from "@codemirror/state";
import {
  EditorView, drawSelection, highlightActiveLine, highlightActiveLineGutter, keymap, lineNumbers,
} from "@codemirror/view";
import { tags } from "@lezer/highlight";

// The variables of web/parts.js and web/editor.js: they know dark and light.
const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.operatorKeyword, tags.modifier], color: "var(--_keyword)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--_string)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--_number)" },
  { tag: tags.comment, color: "var(--_comment)", fontStyle: "italic" },
  { tag: [tags.function(tags.definition(tags.variableName)), tags.definition(tags.className)], fontWeight: "600" },
]);
const look = EditorView.theme({
  "&": { height: "100%", color: "var(--_text)", backgroundColor: "transparent", fontSize: "inherit" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "inherit", lineHeight: "1.55" },
  ".cm-gutters": { color: "var(--_muted)", backgroundColor: "transparent", border: "0" },
  ".cm-content": { caretColor: "var(--_text)" },
  ".cm-cursor": { borderLeftColor: "var(--_text)" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--_field)" },
  ".cm-selectionBackground, &.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground": {
    backgroundColor: "var(--_faint)",
  },
  ".cm-matchingBracket, &.cm-focused .cm-matchingBracket": { backgroundColor: "var(--_faint)", color: "inherit" },
  ".cm-tooltip": { color: "var(--_text)", backgroundColor: "var(--_surface)", border: "1px solid var(--_border)" },
});

/** An editor in `place`, within the shadow root `root`: `changed(text)` hears edits, `run()` Ctrl/Cmd+Enter. */
export function edit(place, root, { text, label, changed, run }) {
  const extensions = [
    lineNumbers(), lintGutter(), history(), drawSelection(), indentOnInput(), bracketMatching(), highlightActiveLine(),
    highlightActiveLineGutter(), indentUnit.of("    "), EditorState.tabSize.of(4), python(), syntaxHighlighting(colours), look,
    keymap.of([{ key: "Mod-Enter", run: () => (run(), true) }, ...defaultKeymap, ...historyKeymap, indentWithTab]),
    EditorView.contentAttributes.of({ tabindex: "0", "aria-label": label, "aria-describedby": "keys" }),
    EditorView.updateListener.of((update) => { if (update.docChanged) changed(update.state.doc.toString()); }),
  ];
  const view = new EditorView({ state: EditorState.create({ doc: text, extensions }), parent: place, root });
  return {
    get text() { return view.state.doc.toString(); },
    set text(value) { view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: value } }); },
    focus: () => view.focus(),
    /** Marks a line (from 1) with a message, or none for null. */
    mark(line, message) {
      const { doc } = view.state;
      const marked = line !== null && line >= 1 && line <= doc.lines ? [doc.line(line)] : [];
      view.dispatch(setDiagnostics(view.state, marked.map(({ from, to }) => ({ from, to, severity: "error", message }))));
      for (const { from } of marked) view.dispatch({ effects: EditorView.scrollIntoView(from, { y: "center" }) });
    },
  };
}
