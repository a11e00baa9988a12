package rootfs

// OwnerOf is the user and the group of a file.
var OwnerOf = ownerOf
