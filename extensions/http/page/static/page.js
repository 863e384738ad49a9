// What HTML alone cannot do: text is copied, Enter sends, files are dropped in, the newest words stay in view.
(() => {
  const copied = (button) => {
    button.textContent = "Copied";
    button.classList.add("copied");
    setTimeout(() => { button.textContent = "Copy"; button.classList.remove("copied"); }, 1600);
  };
  const copy = async (text, button) => {
    if (navigator.clipboard) {
      try { await navigator.clipboard.writeText(text); copied(button); return; } catch { /* the old way may work */ }
    }
    const field = document.body.appendChild(document.createElement("textarea"));
    field.value = text;
    field.select();
    if (document.execCommand("copy")) copied(button);
    field.remove();
    button.focus();
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy], [data-copy-answer]");
    if (!button) return;
    const source = button.hasAttribute("data-copy")
      ? button.closest(".code").querySelector("code")
      : button.closest(".said").querySelector(".markdown");
    copy(button.hasAttribute("data-copy") ? source.textContent : source.innerText, button);
  });
  const fold = document.querySelector(".fold");
  fold?.addEventListener("click", () => {
    const folded = document.body.classList.toggle("folded");
    fold.setAttribute("aria-expanded", String(!folded));
    document.cookie = `nacre_sidebar=${folded ? "folded" : ""}; path=/; max-age=31536000; samesite=strict`;
  });
  document.querySelector(".conversations [aria-current]")?.scrollIntoView({ block: "nearest" });

  document.querySelector(".leave")?.addEventListener("submit", () => sessionStorage.clear());

  const form = document.getElementById("say");
  for (const chosen of document.querySelectorAll("[data-submit]")) {
    chosen.addEventListener("change", () => chosen.form.requestSubmit());
  }
  if (!form) return;
  const text = document.getElementById("text");
  const files = document.getElementById("files");
  const names = document.getElementById("file-names");
  const log = document.getElementById("log");

  const isAtEnd = () => window.innerHeight + window.scrollY >= document.documentElement.scrollHeight - 160;
  const toEnd = () => window.scrollTo(0, document.documentElement.scrollHeight);
  let follow = true;
  window.addEventListener("scroll", () => { follow = isAtEnd(); }, { passive: true });
  new MutationObserver(() => {
    if (log.querySelector(".said")) log.querySelector(".empty")?.remove();
    if (follow) toEnd();
  }).observe(log, { childList: true, subtree: true, characterData: true });

  document.addEventListener("click", (event) => {
    const starter = event.target.closest("[data-fill]");
    if (!starter) return;
    starter.closest("[popover]")?.hidePopover();
    setText(starter.dataset.fill);
    text.focus();
    text.setSelectionRange(text.value.length, text.value.length);
  });
  const tellFiles = () => { names.textContent = Array.from(files.files, (file) => file.name).join(", "); };
  files.addEventListener("change", tellFiles);
  const draft = `draft ${form.elements.session.value}`;
  const setText = (words) => { text.value = words; text.dispatchEvent(new Event("input")); };
  text.addEventListener("input", () => {
    text.rows = Math.min(12, text.value.split("\n").length);
    sessionStorage.setItem(draft, text.value);
  });
  setText(text.value || sessionStorage.getItem(draft) || "");
  text.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      form.requestSubmit();
    }
  });
  form.addEventListener("submit", (event) => {
    if (text.value.trim() || files.files.length) return;
    event.preventDefault();
    event.stopImmediatePropagation();
  });
  let sent = "";
  form.addEventListener("htmx:beforeRequest", (event) => {
    if (event.detail.elt !== form) return;
    sent = text.value;
    setText(""); // what is written from now on is the next message
  });
  form.addEventListener("htmx:afterRequest", (event) => {
    if (event.detail.elt !== form) return;
    if (!event.detail.successful) { setText([sent, text.value].filter(Boolean).join("\n")); return; }
    files.value = "";
    tellFiles();
    follow = true;
    toEnd();
    text.focus();
  });

  const trouble = document.getElementById("trouble");
  const on = (name, act) => document.body.addEventListener(name, act);
  on("htmx:afterRequest", (event) => { if (event.detail.successful) trouble.textContent = ""; });
  on("htmx:sendError", () => { trouble.textContent = "The server cannot be reached. Nothing was sent."; });
  on("htmx:responseError", ({ detail: { xhr } }) => {
    const answer = new DOMParser().parseFromString(xhr.responseText, "text/html");
    trouble.textContent = (answer.querySelector(".problem") || answer.body).textContent;
  });
  on("htmx:sseError", async () => {
    trouble.textContent = "The server cannot be reached. The page tries again by itself.";
    const answer = await fetch(location.href, { method: "HEAD" }).catch(() => null);
    if (answer?.redirected) location.reload(); // the login is over
  });
  on("htmx:sseOpen", () => { trouble.textContent = ""; });
  on("htmx:sseClose", (event) => {
    // A turn that the server no longer knows: what is left of it is in the transcript.
    if (event.detail.type === "message" && event.target.querySelector(".running")) location.reload();
  });
  const holdsFiles = (event) => event.dataTransfer && Array.from(event.dataTransfer.types).includes("Files");
  document.addEventListener("dragover", (event) => {
    if (!holdsFiles(event)) return;
    event.preventDefault();
    form.classList.add("dropping");
  });
  document.addEventListener("dragleave", () => form.classList.remove("dropping"));
  document.addEventListener("drop", (event) => {
    if (!holdsFiles(event)) return;
    event.preventDefault();
    form.classList.remove("dropping");
    files.files = event.dataTransfer.files;
    tellFiles();
  });
  history.scrollRestoration = "manual"; // a reload shows the end too
  toEnd();
})();
