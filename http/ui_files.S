/* The files that http/ui/bundle.mjs has made, as they are sent. */
    .macro file name, path
    .hidden \name, \name\()_end
    .globl \name, \name\()_end
\name:
    .incbin "\path"
\name\()_end:
    .endm

    .section .rodata
    file cp__http_ui_index, index.html
    file cp__http_ui_icon, icon.svg
    file cp__http_ui_licenses, licenses.txt
    file cp__http_ui_style, page.css
    file cp__http_ui_script, page.js
    file cp__http_ui_version, version

    .section .note.GNU-stack, "", %progbits
