# Completion of `bub` in fish; `bub completion fish` printed it.
function __bub_complete
    set -l words (commandline -opc)
    set -e words[1]
    set -l token (commandline -ct)
    set -l typed (string unescape -- $token; or string replace -r '^[\'"]' '' -- $token)
    set -l lines (@BUB@ __complete fish $words "$typed" 2>/dev/null)
    set -l others $lines[1]
    set -e lines[1]
    printf '%s\n' $lines
    set -l prefix (string match -r -- '^--[^=]*=' "$typed")
    set -l path (string replace -r -- '^--[^=]*=' '' "$typed")
    switch "$others"
        case files
            set -l found (__fish_complete_path "$path")
            string match -q -- '-*' "$path"; and set found "$path"* # for `--odd.yaml`, fish would look for options
            for each in $found
                printf '%s\n' "$prefix$each"
            end
        case folders
            for each in (__fish_complete_directories "$path" '')
                printf '%s\n' "$prefix$each"
            end
    end
end
complete -e -c bub
complete -c bub -f -a '(__bub_complete)'
